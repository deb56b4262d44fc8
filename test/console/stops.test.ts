import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { startConsole } from '../support/console.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'

test('a console that has stopped does no work any more', async () => {
  const redis = await RedisServer.start()
  onTestFinished(() => redis.stop())
  const timers = new ManualTimers()
  const { stop, health } = await startConsole({
    redisUrl: redis.url,
    webhook: { url: 'http://127.0.0.1:9/', secret: `whsec_${randomBytes(32).toString('base64')}` },
    workspaceWebhooks: { enabled: true },
    parts: { timers },
  })
  await until('the console is connected', async () => (await health()).announcer === 'ready')
  expect(timers.nextDelayMs).not.toBeNull()
  await stop()
  // A last look at a connection that is closed by now.
  timers.advance(60_000)
  expect(timers.nextDelayMs).toBeNull()
})
