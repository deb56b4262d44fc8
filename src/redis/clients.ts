import type { Socket } from 'node:net'
import { Cluster, Redis } from 'ioredis'
import { neverReloads, type OnReload, reloadable } from '../config/reloadable.ts'
import { connectorTo } from './connector.ts'
import { type Endpoint, type FindServer, parseEndpoint, REDIS_PORT } from './endpoint.ts'
import {
  type Access,
  type RedisSettings,
  retryDelayMs,
  safeOptions,
  sentinelAccess,
  serverAccess,
  topologyOf,
} from './options.ts'
import { findPrimary } from './sentinels.ts'

/** For commands on keys: in a cluster it knows which node holds which. */
export type RedisClient = Redis | Cluster

/** User, password and authorities can change while a client lives. */
export type OnRedisReload = OnReload<RedisSettings>

/** A frozen node closes nothing: that another has taken its place is seen only by looking. */
const TOPOLOGY_EVERY_MS = 2_000
const TOPOLOGY_AGAIN_MS = 100
/** A key that was moved, twice at most: then somebody else is asked. */
const MAX_REDIRECTIONS = 3

/**
 * Where to connect for what one server can do: the single server, the primary that the Sentinels name, or any node of
 * the cluster, each time another one.
 * @param known the nodes of the cluster as far as they are known by now
 */
export function findServer(
  settings: RedisSettings,
  known: () => readonly Endpoint[] = () => [],
  onReload: OnRedisReload = neverReloads,
): FindServer {
  const topology = topologyOf(settings)
  switch (topology.kind) {
    case 'standalone': {
      const server = parseEndpoint(topology.url, REDIS_PORT)
      return () => server
    }
    case 'sentinel': {
      const access = reloadable(settings, onReload, sentinelAccess)
      return findPrimary(topology.name, topology.urls, settings, () => access.value)
    }
    case 'cluster':
      return takeTurns(
        topology.urls.map(url => parseEndpoint(url, REDIS_PORT)),
        known,
      )
  }
}

/** For commands on keys, whichever kind of Redis it is. Not connected yet. */
export function createCommandClient(
  settings: RedisSettings,
  onReload: OnRedisReload = neverReloads,
): RedisClient {
  if (topologyOf(settings).kind === 'cluster') return createClusterClient(settings, onReload)
  return createServerClient(settings, findServer(settings, undefined, onReload), onReload)
}

/** The socket that the connector of a client opened last: ioredis documents no way to it. */
const sockets = new WeakMap<Redis, Socket>()

export function socketOf(client: Redis): Socket | null {
  return sockets.get(client) ?? null
}

/** A connection to one server. Not connected yet. */
export function createServerClient(
  settings: RedisSettings,
  find: FindServer,
  onReload: OnRedisReload = neverReloads,
): Redis {
  const access = serverAccess(settings)
  const Connector = connectorTo(
    find,
    () => client.options.tls ?? null,
    settings.commandTimeoutMs,
    socket => sockets.set(client, socket),
  )
  const client: Redis = new Redis({ ...safeOptions(settings, access), Connector })
  onReload(next => {
    const renewed = serverAccess(next)
    return () => renew(client, renewed)
  })
  return client
}

/** What the next connection is made with; the one that there is lives on. */
function renew({ options }: Redis, { username, password, tls }: Access): void {
  options.username = username
  options.password = password
  if (tls !== null) options.tls = tls
}

/**
 * Connections to the nodes of a cluster. Not for subscribing: the subscriber that is built into ioredis moves to
 * another node without a word, and what was published meanwhile is lost.
 */
export function createClusterClient(
  settings: RedisSettings,
  onReload: OnRedisReload = neverReloads,
): Cluster {
  const access = reloadable(settings, onReload, serverAccess)
  const topology = topologyOf(settings)
  const start = topology.kind === 'cluster' ? topology.urls : []
  const cluster = new PatientCluster(
    start.map(url => parseEndpoint(url, REDIS_PORT)),
    {
      lazyConnect: true,
      enableOfflineQueue: false,
      enableReadyCheck: false,
      // Each node finds its own address, so that a certificate is checked against the name it was configured by.
      dnsLookup: (host, callback) => callback(null, host),
      clusterRetryStrategy: attempt => retryDelayMs(attempt),
      slotsRefreshInterval: TOPOLOGY_EVERY_MS,
      slotsRefreshTimeout: settings.connectTimeoutMs,
      maxRedirections: MAX_REDIRECTIONS,
      // Of these nothing is asked twice: the key service answers sooner.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      redisOptions: safeOptions(settings, access.value),
    },
  )
  // Without this each node would be connected to by the first look-up that needs it, which others would not wait for.
  cluster.on('+node', (node: Redis) => {
    renew(node, access.value)
    if (node.options.readOnly !== true) node.connect().catch(() => {})
  })
  onReload(() => () => {
    for (const node of cluster.nodes()) renew(node, access.value)
  })
  return cluster
}

/** Each look-up that is redirected asks for the nodes anew: in a burst of them the first is enough. */
class PatientCluster extends Cluster {
  #askedMs = Number.NEGATIVE_INFINITY

  override refreshSlotsCache(...callback: Parameters<Cluster['refreshSlotsCache']>): void {
    const nowMs = performance.now()
    // Somebody waits for what has a callback.
    if (callback.length === 0 && nowMs - this.#askedMs < TOPOLOGY_AGAIN_MS) return
    this.#askedMs = nowMs
    super.refreshSlotsCache(...callback)
  }
}

/** Resolves when each primary is connected, or could not be: what is sent to it before that fails. */
export async function primariesTried(cluster: Cluster): Promise<void> {
  await Promise.all(cluster.nodes('master').map(tried))
}

function tried(node: Redis): Promise<void> {
  if (node.status !== 'connecting' && node.status !== 'connect') return Promise.resolve()
  const { promise, resolve } = Promise.withResolvers<void>()
  for (const event of ['ready', 'close', 'end']) node.once(event, resolve)
  return promise
}

export function nodesOf(cluster: Cluster): Endpoint[] {
  return cluster.nodes().map(({ options }) => ({
    host: options.host ?? '127.0.0.1',
    port: options.port ?? REDIS_PORT,
  }))
}

/** By chance, so that a fleet spreads over the nodes, but never twice the same: that may be the one that is broken. */
function takeTurns(start: readonly Endpoint[], known: () => readonly Endpoint[]): FindServer {
  let last: Endpoint | undefined
  return () => {
    const nodes = known().length > 0 ? known() : start
    const others = nodes.filter(node => node.host !== last?.host || node.port !== last.port)
    const candidates = others.length > 0 ? others : nodes
    last = candidates[Math.floor(Math.random() * candidates.length)]
    if (last === undefined) throw new Error('No node of the cluster is known')
    return last
  }
}
