import { Redis } from 'ioredis'
import { connectorTo } from './connector.ts'
import { type Endpoint, type FindServer, parseEndpoint, SENTINEL_PORT } from './endpoint.ts'
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
  return () => majorityOf(sentinels.map(sentinel => askSentinel(name, sentinel, settings, access())))
}

/** Resolves as soon as more than half agree, otherwise when all have replied or failed. */
export async function majorityOf(replies: readonly Promise<Endpoint>[]): Promise<Endpoint> {
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
    if (first !== undefined) return first.primary
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
  const options = safeOptions(settings, access)
  const client = new Redis({
    ...options,
    Connector: connectorTo({
      find: () => sentinel,
      tls: () => access.tls,
      disconnectTimeoutMs: settings.commandTimeoutMs,
    }),
    retryStrategy: null,
  })
  const { promise: failed, reject: fail } = Promise.withResolvers<never>()
  // The first error is the cause; the closed connection is its consequence.
  client.on('error', fail)
  failed.catch(() => {})
  try {
    await Promise.race([failed, client.connect()])
    const reply: unknown = await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)
    return endpointOf(reply, name)
  } finally {
    client.disconnect()
  }
}

function endpointOf(reply: unknown, name: string): Endpoint {
  if (reply === null) throw new Error(`the Sentinel watches no primary named ${name}`)
  const [host, port]: unknown[] = Array.isArray(reply) ? reply : []
  if (typeof host !== 'string' || !/^\d{1,5}$/.test(String(port))) {
    throw new Error('the reply of the Sentinel is no address')
  }
  return { host, port: Number(port) }
}
