import { type AdminAnswer, Parts } from './parts.ts'
import type { Listening } from './postern-process.ts'
import { untilConnected } from './readiness.ts'
import type { RecordingUpstream } from './recording-upstream.ts'
import type { RedisServer } from './redis-server.ts'

export interface IssuedKey {
  readonly id: string
  readonly secret: string
}

/** All parts as in production: Redis, console and gateway, each a process, and a recording upstream. */
export interface World {
  readonly redis: RedisServer
  readonly console: Listening
  readonly gateway: Listening
  readonly upstream: RecordingUpstream
  /** Every process that a change or a lookup passes. */
  readonly pids: readonly number[]
  /** Settings that console and gateway share, for starting a further process of either. */
  readonly env: Readonly<Record<string, string>>
  /** Environment of `postern keys`: the console's address and the admin token. */
  readonly cliEnv: Readonly<Record<string, string>>
  admin(method: string, path: string, body?: unknown): Promise<AdminAnswer>
  issue(key?: {
    workspaceId?: string
    scopes?: string[]
    expiresInDays?: number
    allowedCidrs?: string[]
    plan?: string
  }): Promise<IssuedKey>
  revoke(id: string): Promise<void>
  stop(): Promise<void>
}

export const ALL_SCOPES = ['files:read', 'workspace:read']

/**
 * @param settings of the gateway, in addition to the shared ones
 * @param consoleSettings of the console, in addition to the shared ones
 */
export async function startWorld(
  settings: Readonly<Record<string, string>> = {},
  consoleSettings: Readonly<Record<string, string>> = {},
): Promise<World> {
  return await Parts.start(parts => buildWorld(parts, settings, consoleSettings))
}

/** A world beside other parts, which stop with it. */
export async function buildWorld(
  parts: Parts,
  settings: Readonly<Record<string, string>> = {},
  consoleSettings: Readonly<Record<string, string>> = {},
): Promise<World> {
  const redis = await parts.redis()
  const upstream = await parts.upstream()
  const shared = { ...parts.shared, POSTERN_REDIS_URL: redis.url }
  const console = await parts.console({ ...shared, ...consoleSettings })
  const env = {
    ...shared,
    POSTERN_KEY_SERVICE_URL: console.urls.internal,
    POSTERN_UPSTREAM_URL: upstream.url,
  }
  const gateway = await parts.gateway({ ...env, ...settings })
  await untilConnected(gateway)

  const admin: World['admin'] = (method, path, body) => parts.admin(console, method, path, body)
  return {
    redis,
    console,
    gateway,
    upstream,
    pids: [process.pid, redis.pid, ...[console, gateway].map(each => each.process.child.pid ?? 0)],
    env,
    cliEnv: { POSTERN_CONSOLE_URL: console.urls.console, POSTERN_ADMIN_TOKEN: parts.adminToken },
    admin,
    issue: async ({ workspaceId = 'ws_1', scopes = ALL_SCOPES, ...more } = {}) => {
      const { status, json } = await admin('POST', `/workspaces/${workspaceId}/keys`, {
        name: 'test',
        scopes,
        ...more,
      })
      if (status !== 201) throw new Error(`The console answered ${status}: ${JSON.stringify(json)}`)
      return { id: (json['key'] as { id: string }).id, secret: String(json['secret']) }
    },
    revoke: async id => {
      const { status } = await admin('POST', `/keys/${id}/revoke`)
      if (status !== 200) throw new Error(`The console answered ${status}`)
    },
    stop: () => parts.stop(),
  }
}
