import { Redis } from 'ioredis'
import type { Timers } from '../domain/clock.ts'
import {
  connectorTo,
  type Endpoint,
  type FindServer,
  isSameServer,
  parseEndpoint,
  SENTINEL_PORT,
} from './endpoint.ts'
import { type Access, type RedisSettings, safeOptions } from './options.ts'

/**
 * Finds the primary that most Sentinels name. A single Sentinel may be partitioned and name a replaced primary. If no
 * majority responds, takes the most frequent reply: without a majority no failover happened either.
 * @param access returns the current credentials for the Sentinels
 */
export function findPrimary(
  name: string,
  urls: readonly string[],
  settings: RedisSettings,
  access: () => Access,
): FindServer {
  const sentinels = urls.map(url => parseEndpoint(url, SENTINEL_PORT))
  return () => awaitMajority(sentinels.map(sentinel => askSentinel(name, sentinel, settings, access())))
}

/** Asks the Sentinels again and again, over connections that stay open. */
export interface PrimaryQuery {
  /** Fails unless a majority agrees: without one, another primary may have replaced the one that some still name. */
  ask(): Promise<Endpoint>
  /** The connections that follow use these. */
  renew(access: Access): void
  stop(): void
}

/** Connects at the first query. A Sentinel that is not connected yet, or not any more, does not count. */
export function openPrimaryQuery(
  name: string,
  urls: readonly string[],
  settings: RedisSettings,
  access: Access,
): PrimaryQuery {
  let current = access
  const clients = urls.map(url => {
    const client = createSentinelClient(parseEndpoint(url, SENTINEL_PORT), settings, () => current)
    return client.on('error', () => {})
  })
  const askOne = async (client: Redis) => {
    if (client.status === 'wait') await client.connect()
    return primaryAt(client, name)
  }
  return {
    ask: () => awaitMajority(clients.map(askOne), true),
    renew(next) {
      current = next
      for (const { options } of clients) Object.assign(options, pickCredentials(next))
    },
    stop() {
      for (const client of clients) client.disconnect()
    },
  }
}

/** Resolves as soon as more than half agree, otherwise when all have replied or failed. */
export async function awaitMajority(
  replies: readonly Promise<Endpoint>[],
  isRequired = false,
): Promise<Endpoint> {
  const votes = new Map<string, { readonly primary: Endpoint; count: number }>()
  const { promise: agreed, resolve: agree } = Promise.withResolvers<Endpoint>()
  const errors: Error[] = []
  const counted = replies.map(async reply => {
    try {
      const primary = await reply
      const vote = votes.get(JSON.stringify(primary)) ?? { primary, count: 0 }
      votes.set(JSON.stringify(primary), vote)
      if (++vote.count > replies.length / 2) agree(primary)
    } catch (error) {
      errors.push(error instanceof Error ? error : new Error(String(error)))
    }
  })
  return await Promise.race([agreed, Promise.all(counted).then(mostFrequent)])

  function mostFrequent(): Endpoint {
    const [first] = [...votes.values()].sort((one, other) => other.count - one.count)
    if (first !== undefined && !isRequired) return first.primary
    if (first !== undefined) throw new Error('No majority of the Sentinels names the same primary')
    throw new Error(`No Sentinel names the primary: ${errors[0]?.message}`, { cause: errors[0] })
  }
}

/** Opens a connection for one query: the address of the primary is needed only before connecting to it. */
async function askSentinel(
  name: string,
  sentinel: Endpoint,
  settings: RedisSettings,
  access: Access,
): Promise<Endpoint> {
  const client = createSentinelClient(sentinel, settings, () => access, null)
  const { promise: failed, reject: fail } = Promise.withResolvers<never>()
  // The first error is the cause; the closed connection is its consequence.
  client.on('error', fail)
  failed.catch(() => {})
  try {
    await Promise.race([failed, client.connect()])
    return await primaryAt(client, name)
  } finally {
    client.disconnect()
  }
}

function createSentinelClient(
  sentinel: Endpoint,
  settings: RedisSettings,
  access: () => Access,
  retryStrategy: null | undefined = undefined,
): Redis {
  return new Redis({
    ...safeOptions(settings, access()),
    Connector: connectorTo({
      find: () => sentinel,
      tls: () => access().tls,
      disconnectTimeoutMs: settings.commandTimeoutMs,
    }),
    ...(retryStrategy === undefined ? {} : { retryStrategy }),
  })
}

async function primaryAt(client: Redis, name: string): Promise<Endpoint> {
  const reply: unknown = await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)
  return readEndpoint(reply, name)
}

const pickCredentials = ({ username, password }: Access) => ({ username, password })

function readEndpoint(reply: unknown, name: string): Endpoint {
  if (reply === null) throw new Error(`the Sentinel watches no primary named ${name}`)
  const [host, port]: unknown[] = Array.isArray(reply) ? reply : []
  if (typeof host !== 'string' || !/^\d{1,5}$/.test(String(port))) {
    throw new Error('the reply of the Sentinel is no address')
  }
  return { host, port: Number(port) }
}

/** Under a load of changes, the Sentinels are asked this often at most. */
const PAUSE_MS = 50

/**
 * Whether a majority of the Sentinels still names the server of a connection. A primary that was replaced may keep its connections:
 * on its side of a network partition it goes on, and a change that is announced to it reaches only the gateways on that side.
 */
export class PrimaryCheck {
  readonly #query: PrimaryQuery
  readonly #timers: Timers
  /** The server that the connection was opened to. */
  readonly #connectedTo: () => Endpoint | null
  readonly #onOther: () => void
  #pause = Promise.resolve()
  #next: Promise<boolean> | null = null

  /** @param parts.onOther called when they name another server */
  constructor(parts: {
    readonly query: PrimaryQuery
    readonly timers: Timers
    readonly connectedTo: () => Endpoint | null
    readonly onOther: () => void
  }) {
    this.#query = parts.query
    this.#timers = parts.timers
    this.#connectedTo = parts.connectedTo
    this.#onOther = parts.onOther
  }

  /** Asks them after this call: an answer that is on the way may be older than what the caller has just written. */
  confirm(): Promise<boolean> {
    this.#next ??= this.#pause.then(() => {
      this.#next = null
      this.#pause = new Promise(resolve => void this.#timers.after(PAUSE_MS, resolve))
      return this.#ask()
    })
    return this.#next
  }

  stop(): void {
    this.#query.stop()
  }

  async #ask(): Promise<boolean> {
    const server = this.#connectedTo()
    try {
      const primary = await this.#query.ask()
      // A connection that was opened meanwhile is not the one that was asked about.
      if (server === null || server !== this.#connectedTo()) return false
      if (isSameServer(primary, server)) return true
      this.#onOther()
    } catch {
      // No majority answers.
    }
    return false
  }
}
