import type { RedisSettings } from '../../src/redis/options.ts'
import type { RedisServer } from './redis-server.ts'
import { CONSOLE_USER, GATEWAY_USER, type User } from './redis-users.ts'

/** How settings address a topology. */
export type Place = Pick<RedisSettings, 'sentinel' | 'cluster'> & { url?: string; caFile?: string }

/** Real servers that clients see as one Redis. */
export interface RedisGroup {
  readonly kind: 'standalone' | 'sentinel' | 'cluster'
  /** Servers that hold records. */
  readonly servers: readonly RedisServer[]
  readonly place: Place
  /** Commands that any server denied to a user. */
  refused(): Promise<string[]>
  stop(): Promise<void>
}

export const NOWHERE = { sentinel: { urls: [] }, cluster: { urls: [] } }

export async function addUsers(
  server: RedisServer,
  rights: { gateway: readonly string[]; console: readonly string[] },
): Promise<void> {
  await addUser(server, GATEWAY_USER, rights.gateway)
  await addUser(server, CONSOLE_USER, rights.console)
}

export async function addUser(
  server: RedisServer,
  { username, password }: User,
  rights: readonly string[],
): Promise<void> {
  await server.addUser(username, 'reset', 'on', `>${password}`, ...rights)
}

/** Each denial as the right that was missing: `+getrange`, `~postern:key:…`, `&postern:keys:changed`. */
export async function refusedBy(servers: readonly RedisServer[]): Promise<string[]> {
  const logs = await Promise.all(servers.map(server => server.admin.call('ACL', 'LOG')))
  const signs: Record<string, string> = { command: '+', key: '~', channel: '&' }
  return logs.flatMap(log =>
    (log as string[][]).map(entry => {
      const field = (name: string) => String(entry[entry.indexOf(name) + 1])
      return `${signs[field('reason')] ?? field('reason')}${field('object')}`
    }),
  )
}
