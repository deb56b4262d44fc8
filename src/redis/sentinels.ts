import { Redis } from 'ioredis'
import { connectorTo } from './connector.ts'
import { type Endpoint, type FindServer, parseEndpoint, SENTINEL_PORT } from './endpoint.ts'
import { type Access, type RedisSettings, safeOptions } from './options.ts'

/**
 * Finds the primary as most of the Sentinels name it. One alone may be cut off, and name a primary that the others have
 * replaced: what is written or published there reaches no gateway. Only where no majority answers is the most frequent answer
 * taken; without a majority there was no failover either.
 * @param access to the Sentinels, as it is at the time
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

/** @returns as soon as more than half agree, else when all have spoken */
export async function majorityOf(answers: readonly Promise<Endpoint>[]): Promise<Endpoint> {
  const votes = new Map<string, { readonly primary: Endpoint; count: number }>()
  const { promise: agreed, resolve: agree } = Promise.withResolvers<Endpoint>()
  const errors: Error[] = []
  const counted = answers.map(async answer => {
    try {
      const primary = await answer
      const vote = votes.get(JSON.stringify(primary)) ?? { primary, count: 0 }
      votes.set(JSON.stringify(primary), vote)
      if (++vote.count > answers.length / 2) agree(primary)
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

/** A connection for one question: an answer is needed only when a connection is to be made. */
async function askSentinel(
  name: string,
  sentinel: Endpoint,
  settings: RedisSettings,
  access: Access,
): Promise<Endpoint> {
  const options = safeOptions(settings, access)
  const client = new Redis({
    ...options,
    Connector: connectorTo(
      () => sentinel,
      () => access.tls,
      settings.commandTimeoutMs,
    ),
    retryStrategy: null,
  })
  const { promise: failed, reject: fail } = Promise.withResolvers<never>()
  // Of the errors the first is the cause; that the connection is closed follows from it.
  client.on('error', fail)
  failed.catch(() => {})
  try {
    await Promise.race([failed, client.connect()])
    const answer: unknown = await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)
    return endpointOf(answer, name)
  } finally {
    client.disconnect()
  }
}

function endpointOf(answer: unknown, name: string): Endpoint {
  if (answer === null) throw new Error(`the Sentinel watches no primary of the name ${name}`)
  const [host, port]: unknown[] = Array.isArray(answer) ? answer : []
  if (typeof host !== 'string' || !/^\d{1,5}$/.test(String(port))) {
    throw new Error('the Sentinel gave an answer that is no address')
  }
  return { host, port: Number(port) }
}
