import { addUsers, NOWHERE, type RedisGroup, refusedBy } from './redis-group.ts'
import { RedisServer } from './redis-server.ts'
import { CONSOLE_RIGHTS, GATEWAY_RIGHTS } from './redis-users.ts'

/** One server with the users of docs/redis.md. */
export async function startStandalone(): Promise<RedisGroup> {
  const server = await RedisServer.start()
  await addUsers(server, { gateway: GATEWAY_RIGHTS.standalone, console: CONSOLE_RIGHTS.standalone })
  return {
    kind: 'standalone',
    servers: [server],
    place: { ...NOWHERE, url: server.url },
    refused: () => refusedBy([server]),
    stop: () => server.stop(),
  }
}
