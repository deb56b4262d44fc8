import { onTestFinished } from 'vitest'
import { SentinelGroup } from '../support/redis-sentinel.ts'
import { RedisServer } from '../support/redis-server.ts'
import { CONSOLE_USER, GATEWAY_USER, SENTINEL_USER } from '../support/redis-users.ts'
import type { Relay, Relays } from './relays.ts'

/** The Redis of a region, as the settings of both planes name it. */
export interface RegionRedis {
  readonly atConsole: object
  /** In the environment. */
  readonly atGateway: Readonly<Record<string, string>>
  pids(): number[]
}

export interface SingleRedis extends RegionRedis {
  readonly server: RedisServer
  readonly fromConsole: Relay
}

/** A single server, far from the console. */
export async function singleRedis(relays: Relays, delayMs: number): Promise<SingleRedis> {
  const server = await RedisServer.start()
  onTestFinished(() => server.stop())
  const fromConsole = await relays.open(server.url, delayMs)
  return {
    server,
    fromConsole,
    atConsole: { url: `redis://127.0.0.1:${fromConsole.port}` },
    atGateway: { POSTERN_REDIS_URL: server.url },
    pids: () => (server.isRunning ? [server.pid] : []),
  }
}

export interface SentinelRedis extends RegionRedis {
  readonly group: SentinelGroup
}

/** A primary, a replica and three Sentinels. Sentinels name addresses, so that no relay comes between. */
export async function sentinelRedis(): Promise<SentinelRedis> {
  const group = await SentinelGroup.start()
  onTestFinished(() => group.stop())
  const { name, urls } = group.place.sentinel
  return {
    group,
    atConsole: { sentinel: group.place.sentinel, ...CONSOLE_USER },
    atGateway: {
      POSTERN_REDIS_SENTINEL_NAME: name ?? '',
      POSTERN_REDIS_SENTINEL_URLS: urls.join(','),
      POSTERN_REDIS_SENTINEL_USERNAME: SENTINEL_USER.username,
      POSTERN_REDIS_SENTINEL_PASSWORD: SENTINEL_USER.password,
      POSTERN_REDIS_USERNAME: GATEWAY_USER.username,
      POSTERN_REDIS_PASSWORD: GATEWAY_USER.password,
    },
    pids: () => group.servers.filter(server => server.isRunning).map(({ pid }) => pid),
  }
}
