import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { REVOCATION_TIMING } from '../../src/domain/revocation-timing.ts'
import { CHANGES_CHANNEL } from '../../src/domain/wire.ts'
import { countAccepted } from '../support/count-accepted.ts'
import { readMessage } from '../support/messages.ts'
import { Parts } from '../support/parts.ts'
import type { Listening } from '../support/postern-process.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { readiness } from '../support/readiness.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { runs } from '../support/runs.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'
import type { IssuedKey } from '../support/world.ts'

const ROUNDS = runs(2, 10)
const KEYS = 5
const WATCHED_MS = 3_000

describe.skipIf(!has(POSTGRES))('two consoles on one PostgreSQL', () => {
  const parts = new Parts()
  let settings: Readonly<Record<string, string>>
  let redis: RedisServer
  beforeAll(async () => {
    const postgres = await parts.own(await PostgresServer.started())
    redis = await parts.redis({ settings: ['--enable-debug-command', 'yes'] })
    settings = {
      POSTERN_LOG_LEVEL: 'warn',
      POSTERN_REDIS_URL: redis.url,
      POSTERN_DATABASE_URL: await postgres.database(),
    }
  })
  afterAll(() => parts.stop())

  const startConsole = async () => {
    const console = await parts.console(settings)
    await until('it announces', async () => (await readiness(console))['announcer'] === 'ready')
    return console
  }
  const revoke = async (console: Listening, { id }: IssuedKey) => {
    const { announced } = await parts.change(console, `/keys/${id}/revoke`)
    expect(announced).toBe(true)
  }

  test('what one has announced is announced again if Redis loses it, and that console dies before it can find that', async () => {
    const subscriber = redis.client()
    await subscriber.subscribe(CHANGES_CHANNEL)
    const next = async (wanted: (message: NonNullable<ReturnType<typeof readMessage>>) => boolean) => {
      for (;;) {
        const [, text] = await once(subscriber, 'message')
        const message = readMessage(String(text))
        if (message !== null && wanted(message)) return message
      }
    }
    const [upstream, stays] = [await parts.upstream(), await startConsole()]
    const asked = { early: 0, late: 0, acceptedEarly: 0, acceptedLate: 0 }
    for (let round = 0; round < ROUNDS; round++) {
      const dies = await startConsole()
      const [first, ...keys] = await Promise.all(Array.from({ length: KEYS + 1 }, () => parts.issue(stays)))
      const change = next(({ kind }) => kind === 'change')
      if (first !== undefined) await revoke(dies, first)
      const { sender } = await change
      // The other one would find the loss of what it has written since.
      await next(message => message.kind === 'heartbeat' && message.sender !== sender)
      await redis.admin.save()
      const revokedAtMs = performance.now()
      await Promise.all(keys.map(key => revoke(dies, key)))
      await redis.admin.debug('RELOAD', 'NOSAVE')
      dies.process.child.kill('SIGKILL')
      const gateway = await parts.gateway({
        ...settings,
        POSTERN_KEY_SERVICE_URL: stays.urls.internal,
        POSTERN_UPSTREAM_URL: upstream.url,
      })
      while (performance.now() - revokedAtMs < WATCHED_MS) {
        const isLate = performance.now() - revokedAtMs > REVOCATION_TIMING.disconnectedBoundMs
        asked[isLate ? 'acceptedLate' : 'acceptedEarly'] += await countAccepted(gateway, keys)
        asked[isLate ? 'late' : 'early'] += keys.length
      }
      await gateway.process.stop('SIGKILL')
    }
    process.stdout.write(`${JSON.stringify(asked)}\n`)
    expect(asked.late).toBeGreaterThan(0)
    expect(asked.acceptedLate).toBe(0)
  })
})
