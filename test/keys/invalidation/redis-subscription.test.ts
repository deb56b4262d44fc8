import { expect, onTestFinished, test } from 'vitest'
import { CHANGES_CHANNEL } from '../../../src/domain/wire.ts'
import { InvalidationListener } from '../../../src/keys/invalidation/invalidation-listener.ts'
import { RedisSubscription } from '../../../src/keys/invalidation/redis-subscription.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { createServerClient, findServer } from '../../../src/redis/clients.ts'
import { RedisConnection } from '../../../src/redis/redis-connection.ts'
import { digestNo } from '../../support/key-records.ts'
import { keyStoreConfig } from '../../support/key-store-config.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { changeMessage, MESSAGE_KEY } from '../../support/messages.ts'
import { ScriptedRedis } from '../../support/scripted-redis.ts'
import { settled, until } from '../../support/until.ts'

const CHANGES = 4_000
/** After so many messages the subscription stops reading; it still handles the rest of the last read, at most 64 KiB. */
const MAX_MESSAGES = 250
const READ_BYTES = 64 * 1024

async function subscribed({ needsHeartbeats }: { needsHeartbeats: boolean }) {
  const redis = await ScriptedRedis.start(() => 'OK')
  onTestFinished(() => redis.stop())
  const clock = new ManualClock()
  const listener = new InvalidationListener({
    clock,
    metrics: createMetrics(),
    needsHeartbeats,
    messageKeys: () => [MESSAGE_KEY],
  })
  const failures = new FailureLog('invalidation', new LogSpy(), clock)
  const subscription = new RedisSubscription({ listener, clock, failures })
  const settings = keyStoreConfig({ redisUrl: `redis://${redis.address}` }).redis
  const connection = new RedisConnection(createServerClient(settings, findServer(settings)), subscription)
  onTestFinished(() => connection.stop())
  subscription.attach(connection)
  connection.start()
  await until('Redis has the subscription', () => redis.commands.some(([name]) => name === 'subscribe'))
  return { redis, clock, listener, subscription }
}

test('during a silence the subscription is repeated, so that a connection that Redis has forgotten is noticed', async () => {
  const { redis, clock, subscription } = await subscribed({ needsHeartbeats: true })
  const count = () => redis.commands.filter(([name]) => name === 'subscribe').length
  clock.advance(900)
  subscription.watch()
  clock.advance(200)
  subscription.watch()
  await until('it is repeated', () => count() > 1)
  subscription.watch()
  await settled()
  expect(count()).toBe(2)
})

test('a burst of changes does not block requests, and no change is lost', async () => {
  const { redis, listener } = await subscribed({ needsHeartbeats: false })
  await until('the gateway is subscribed', () => listener.isConnected())

  let turn = 0
  const turnOfChange: number[] = []
  listener.onChange(() => {
    turnOfChange.push(turn)
    return 'evicted'
  })
  const changes = Array.from({ length: CHANGES }, (_, number) => changeNo(number))
  redis.publish(CHANGES_CHANNEL, changes)
  while (turnOfChange.length < CHANGES) {
    await settled()
    turn++
  }

  const changesInTurn = Array.from(Map.groupBy(turnOfChange, of => of).values(), ({ length }) => length)
  const messageBytes = `message${CHANGES_CHANNEL}${changes[0]}`.length // And a little for the protocol.
  expect(Math.max(...changesInTurn)).toBeLessThan(MAX_MESSAGES + READ_BYTES / messageBytes)
})

function changeNo(number: number): string {
  return changeMessage({ digest: digestNo(number), version: 2, atMs: 1 })
}
