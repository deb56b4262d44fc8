import type { RedisSettings } from '../../src/redis/options.ts'
import type { RedisServer } from './redis-server.ts'
import { CONSOLE_USER, GATEWAY_USER, type User } from './redis-users.ts'

/** Where a topology is, in the words of the settings. */
export type Place = Pick<RedisSettings, 'sentinel' | 'cluster'> & { url?: string; caFile?: string }

/** Real servers that are one Redis to those who use it. */
export interface RedisGroup {
  readonly kind: 'standalone' | 'sentinel' | 'cluster'
  /** Those that hold keys. */
  readonly servers: readonly RedisServer[]
  readonly place: Place
  /** What was refused to a user anywhere. */
  refused(): Promise<unknown[]>
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

async function addUser(server: RedisServer, { username, password }: User, rights: readonly string[]) {
  await server.addUser(username, 'reset', 'on', `>${password}`, ...rights)
}

export async function refusedBy(servers: readonly RedisServer[]): Promise<unknown[]> {
  const logs = await Promise.all(servers.map(server => server.admin.call('ACL', 'LOG')))
  return logs.flat()
}
