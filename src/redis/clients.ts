import type { Socket } from 'node:net'
import { Cluster, Command, Redis } from 'ioredis'
import { neverReloads, type OnReload, reloadable } from '../config/reloadable.ts'
import {
  connectorTo,
  connectorToNode,
  type Endpoint,
  type FindServer,
  parseEndpoint,
  REDIS_PORT,
} from './endpoint.ts'
import {
  type Access,
  type RedisSettings,
  reconnectDelayMs,
  requireTopology,
  safeOptions,
  sentinelAccess,
  serverAccess,
} from './options.ts'
import { findPrimary, openPrimaryQuery, type PrimaryQuery } from './sentinels.ts'

/** For commands on keys. The cluster client sends each command to the node that holds the key. */
export type RedisClient = Redis | Cluster

/** User, password and certificate authorities can change while a client runs. */
export type OnRedisReload = OnReload<RedisSettings>

/** A frozen node closes no connection, so only polling shows that a replica took over. */
const TOPOLOGY_INTERVAL_MS = 2_000
/** Refreshes that redirected lookups cause are at least this far apart. */
const MIN_TOPOLOGY_INTERVAL_MS = 100
/** Follows at most two moves of a slot; after that the lookup goes to the key service. */
const MAX_REDIRECTIONS = 3

/**
 * @returns a function that finds the server to connect to: the single server, the primary that the Sentinels name, or a
 * node of the cluster, a different one each time
 * @param known the nodes of the cluster that are known at the time
 */
export function findServer(
  settings: RedisSettings,
  known: () => readonly Endpoint[] = () => [],
  onReload: OnRedisReload = neverReloads,
): FindServer {
  const topology = requireTopology(settings)
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
      return pickNodes(
        topology.urls.map(url => parseEndpoint(url, REDIS_PORT)),
        known,
      )
  }
}

/** @returns what asks a majority of the Sentinels for the primary; null without Sentinels */
function createPrimaryQuery(
  settings: RedisSettings,
  onReload: OnRedisReload = neverReloads,
): PrimaryQuery | null {
  const topology = requireTopology(settings)
  if (topology.kind !== 'sentinel') return null
  const query = openPrimaryQuery(topology.name, topology.urls, settings, sentinelAccess(settings))
  onReload(next => {
    const access = sentinelAccess(next)
    return () => query.renew(access)
  })
  return query
}

/** A client for commands on keys, for every kind of Redis. Not connected yet. */
export function createCommandClient(
  settings: RedisSettings,
  onReload: OnRedisReload = neverReloads,
): RedisClient {
  if (requireTopology(settings).kind === 'cluster') return createClusterClient(settings, onReload)
  return createServerClient(settings, findServer(settings, undefined, onReload), onReload)
}

/** The socket that each client opened last: ioredis documents no access to it. */
const sockets = new WeakMap<Redis, Socket>()

export function findSocket(client: Redis): Socket | null {
  return sockets.get(client) ?? null
}

export function rememberSocket(client: Redis, socket: Socket): void {
  sockets.set(client, socket)
}

/** A connection to one server. Not connected yet. */
export function createServerClient(
  settings: RedisSettings,
  find: FindServer,
  onReload: OnRedisReload = neverReloads,
): Redis {
  const access = serverAccess(settings)
  const Connector = connectorTo({
    find,
    tls: () => client.options.tls ?? null,
    disconnectTimeoutMs: settings.commandTimeoutMs,
    onSocket: socket => rememberSocket(client, socket),
  })
  const client: Redis = new Redis({ ...safeOptions(settings, access), Connector })
  onReload(next => {
    const renewed = serverAccess(next)
    return () => renew(client, renewed)
  })
  return client
}

/** How one server is found, and how a connection to it is opened. */
export interface RedisNetwork {
  readonly findServer: typeof findServer
  readonly createPrimaryQuery: typeof createPrimaryQuery
  readonly createServerClient: typeof createServerClient
}

export const REDIS_NETWORK: RedisNetwork = { findServer, createPrimaryQuery, createServerClient }

/** Changes the credentials of the next connection; the current one stays open. */
function renew({ options }: Redis, { username, password, tls }: Access): void {
  options.username = username
  options.password = password
  if (tls !== null) options.tls = tls
}

/**
 * Connections to the nodes of a cluster. Not for subscribing: the subscriber built into ioredis moves to another node
 * without an event, and messages published meanwhile are lost.
 */
export function createClusterClient(
  settings: RedisSettings,
  onReload: OnRedisReload = neverReloads,
): Cluster {
  const access = reloadable(settings, onReload, serverAccess)
  const topology = requireTopology(settings)
  const start = topology.kind === 'cluster' ? topology.urls : []
  let askedHost: string | null = null
  const cluster = new ThrottledCluster(
    start.map(url => parseEndpoint(url, REDIS_PORT)),
    {
      lazyConnect: true,
      enableOfflineQueue: false,
      enableReadyCheck: false,
      natMap: key => findUnnamed(key, askedHost),
      // Each node finds its own address, so that a certificate is checked against the name it was configured by.
      dnsLookup: (host, callback) => callback(null, host),
      clusterRetryStrategy: attempt => reconnectDelayMs(attempt),
      slotsRefreshInterval: TOPOLOGY_INTERVAL_MS,
      slotsRefreshTimeout: settings.connectTimeoutMs,
      maxRedirections: MAX_REDIRECTIONS,
      // No retry here: the key service responds sooner.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      redisOptions: {
        ...safeOptions(settings, access.value),
        Connector: connectorToNode(settings.commandTimeoutMs, host => {
          askedHost = host
        }),
      },
    },
  )
  // Otherwise ioredis connects to a node only at the first lookup that needs it, and lookups beside it fail.
  cluster.on('+node', (node: Redis) => {
    renew(node, access.value)
    if (node.options.readOnly !== true) node.connect().catch(() => {})
  })
  onReload(() => () => {
    for (const node of cluster.nodes()) renew(node, access.value)
  })
  return cluster
}

/** Limits refreshes of the topology: ioredis starts one at each redirected lookup, and a burst needs only one. */
class ThrottledCluster extends Cluster {
  #refreshedMs = Number.NEGATIVE_INFINITY

  override refreshSlotsCache(...callback: Parameters<Cluster['refreshSlotsCache']>): void {
    const nowMs = performance.now()
    // A refresh with a callback has a caller that waits for it.
    if (callback.length === 0 && nowMs - this.#refreshedMs < MIN_TOPOLOGY_INTERVAL_MS) return
    this.#refreshedMs = nowMs
    super.refreshSlotsCache(...callback)
  }
}

/** Resolves when the attempt to connect to each primary has succeeded or failed. A command sent earlier fails. */
export async function settlePrimaries(cluster: Cluster): Promise<void> {
  await Promise.all(cluster.nodes('master').map(settleConnection))
}

function settleConnection(node: Redis): Promise<void> {
  if (node.status !== 'connecting' && node.status !== 'connect') return Promise.resolve()
  const { promise, resolve } = Promise.withResolvers<void>()
  for (const event of ['ready', 'close', 'end']) node.once(event, resolve)
  return promise
}

export function listNodes(cluster: Cluster): Endpoint[] {
  return cluster.nodes().map(({ options }) => ({
    host: options.host ?? '127.0.0.1',
    port: options.port ?? REDIS_PORT,
  }))
}

/** Picks nodes at random, so that gateways spread over them, but never the same one twice in a row: it may be down. */
function pickNodes(start: readonly Endpoint[], known: () => readonly Endpoint[]): FindServer {
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

/** Stands for the host of a node that the cluster does not name. No server can have this name (RFC 6761, section 6.4). */
const UNNAMED = 'unnamed.invalid'

/**
 * A node behind a load balancer may name no host in `CLUSTER SLOTS`: null (`cluster-preferred-endpoint-type unknown-endpoint`), an empty
 * text, or `?` where it lacks its host name. The host that was asked is meant then, with the port of the reply. ioredis leaves out
 * such nodes, and connects to a host named `?`.
 */
export function nameUnnamedHosts(reply: unknown): unknown {
  if (!Array.isArray(reply)) return reply
  return reply.map((range: unknown) => (Array.isArray(range) ? range.map(nameUnnamedHost) : range))
}

function nameUnnamedHost(node: unknown): unknown {
  if (!Array.isArray(node)) return node
  const [host, ...rest]: unknown[] = node
  return [isUnnamed(host) ? UNNAMED : host, ...rest]
}

const isUnnamed = (host: unknown) => host === null || host === '' || host === '?'

// Only the clients of a cluster send this command.
Command.setReplyTransformer('cluster', nameUnnamedHosts)

/**
 * @param key host and port as in a reply: of a slot, or of MOVED and ASK
 * @returns where a node is that has no name; null for another one
 */
export function findUnnamed(key: string, askedHost: string | null): Endpoint | null {
  const at = key.lastIndexOf(':')
  const [host, port] = [key.slice(0, at), Number(key.slice(at + 1))]
  if (askedHost === null || (host !== UNNAMED && !isUnnamed(host))) return null
  return { host: askedHost, port }
}
