import { recordKeyName } from '../../src/domain/wire.ts'
import { freePort } from './free-port.ts'
import { Parts } from './parts.ts'
import { addUsers, NOWHERE, type Place, type RedisGroup, refusedBy } from './redis-group.ts'
import type { RedisServer } from './redis-server.ts'
import { CONSOLE_RIGHTS, GATEWAY_RIGHTS } from './redis-users.ts'
import { until } from './until.ts'

const SLOTS = 16_384
const PRIMARIES = 3
const RIGHTS = { gateway: GATEWAY_RIGHTS.cluster, console: CONSOLE_RIGHTS.cluster }
/** A node that does not respond for so long counts as failed. */
const NODE_TIMEOUT_MS = 1_000

export interface ClusterOptions {
  /** Replicas of each primary. */
  readonly replicas: 0 | 1
  /** Of each node, such as `['--cluster-preferred-endpoint-type', 'hostname']`. */
  readonly settings?: readonly string[]
  /** By which the nodes are addressed; 127.0.0.1 by default. */
  readonly host?: string
}

class SlotUnassigned extends Error {
  constructor() {
    super('Every slot must have a primary')
  }
}

/** Three real primaries on loopback, each with a replica if requested. */
export class ClusterGroup implements RedisGroup {
  readonly kind = 'cluster'
  readonly servers: readonly RedisServer[]

  readonly #host: string
  readonly #parts: Parts

  private constructor(servers: readonly RedisServer[], host: string, parts: Parts) {
    this.servers = servers
    this.#host = host
    this.#parts = parts
  }

  static start(options: ClusterOptions): Promise<ClusterGroup> {
    return Parts.start(parts => ClusterGroup.#build(parts, options))
  }

  static async #build(
    parts: Parts,
    { replicas, settings = [], host = '127.0.0.1' }: ClusterOptions,
  ): Promise<ClusterGroup> {
    const nodes = await Parts.several(PRIMARIES * (1 + replicas), () => startNode(parts, settings))
    const [first] = nodes
    for (const [index, { server }] of nodes.entries()) {
      await server.admin.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
      const range = rangeOf(index)
      if (range !== null) await server.admin.call('CLUSTER', 'ADDSLOTSRANGE', ...range)
      if (first !== undefined) {
        await server.admin.call('CLUSTER', 'MEET', '127.0.0.1', first.server.port, first.busPort)
      }
    }
    const group = new ClusterGroup(
      nodes.map(({ server }) => server),
      host,
      parts,
    )
    await until(
      'all nodes know each other',
      () => group.#all('cluster_known_nodes', String(nodes.length)),
      30_000,
    )
    for (const [index, server] of group.servers.entries()) {
      const primary = group.servers[index % PRIMARIES]
      if (index < PRIMARIES || primary === undefined) continue
      const id = await primary.admin.call('CLUSTER', 'MYID')
      await until(
        'the replica has joined',
        async () => (await server.admin.call('CLUSTER', 'REPLICATE', String(id)).catch(() => '')) === 'OK',
      )
    }
    for (const server of group.servers) {
      await addUsers(server, RIGHTS)
    }
    await group.whole()
    return group
  }

  get place(): Place {
    // One node that is down and one that is up must be enough, whichever they are.
    const urls = this.servers.slice(0, PRIMARIES).map(({ port }) => `${this.#host}:${port}`)
    return { ...NOWHERE, cluster: { urls } }
  }

  /** The primary that holds a key's record, as the other nodes see it. */
  async holderOf(digest: string, asking?: RedisServer): Promise<RedisServer> {
    const witness = asking ?? this.servers.at(-1)
    const slot = Number(await witness?.admin.call('CLUSTER', 'KEYSLOT', recordKeyName(digest)))
    const ranges = (await witness?.admin.call('CLUSTER', 'SLOTS')) as [number, number, [string, number]][]
    const port = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2][1]
    const server = this.servers.find(candidate => candidate.port === port)
    if (server === undefined) throw new SlotUnassigned()
    return server
  }

  /** Waits until another node holds the record's slot. */
  async failedOver(digest: string, from: RedisServer): Promise<void> {
    const witness = this.servers.find(server => server !== from)
    await until(
      'another node holds the slot',
      async () => {
        // While nodes vote, the witness may know no primary of the slot.
        const holder = await this.holderOf(digest, witness).catch((error: unknown) => {
          if (error instanceof SlotUnassigned) return from
          throw error
        })
        return holder !== from && (await holder.admin.role())[0] === 'master'
      },
      30_000,
    )
  }

  /** Waits until the replicas have every change. */
  async replicated(): Promise<void> {
    for (const { admin } of this.servers) {
      if ((await admin.role())[0] === 'master')
        await until('the replica has every change', () => admin.wait(1, 1_000))
    }
  }

  /** Waits until all nodes agree that every slot is served and each replica is in sync. */
  async whole(): Promise<void> {
    await until('the cluster is healthy', () => this.#isWhole(), 60_000)
  }

  /** Adds the users to a restarted node, which has only kept the cluster state. */
  async readmit(server: RedisServer): Promise<void> {
    await addUsers(server, RIGHTS)
    await this.whole()
  }

  async refused(): Promise<string[]> {
    return await refusedBy(this.servers)
  }

  async stop(): Promise<void> {
    await this.#parts.stop()
  }

  async #isWhole(): Promise<boolean> {
    if (!(await this.#all('cluster_state', 'ok'))) return false
    const roles = await Promise.all(this.servers.map(({ admin }) => admin.role()))
    const primaries = roles.filter(([role]) => role === 'master').length
    return primaries === PRIMARIES && roles.every(role => role[0] === 'master' || role[3] === 'connected')
  }

  async #all(field: string, value: string): Promise<boolean> {
    const states = await Promise.all(
      this.servers.map(({ admin }) => admin.call('CLUSTER', 'INFO').catch(() => '')),
    )
    return states.every(state => String(state).includes(`${field}:${value}\r\n`))
  }
}

function rangeOf(index: number): [number, number] | null {
  if (index >= PRIMARIES) return null
  const from = Math.ceil((SLOTS * index) / PRIMARIES)
  return [from, Math.ceil((SLOTS * (index + 1)) / PRIMARIES) - 1]
}

async function startNode(
  parts: Parts,
  more: readonly string[],
): Promise<{ server: RedisServer; busPort: number }> {
  const busPort = await freePort()
  const settings = [
    ...['--cluster-enabled', 'yes', '--cluster-port', String(busPort)],
    ...['--cluster-announce-ip', '127.0.0.1', '--cluster-node-timeout', String(NODE_TIMEOUT_MS)],
    // A slot without a primary must not stop the others.
    ...['--cluster-require-full-coverage', 'no'],
    ...['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1'],
    ...more,
  ]
  return { server: await parts.redis({ settings }), busPort }
}
