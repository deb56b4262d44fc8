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

test('a burst of changes does not block requests, and no change is lost', async () => {
  const redis = await ScriptedRedis.start(() => 'OK')
  onTestFinished(() => redis.stop())
  const clock = new ManualClock()
  const listener = new InvalidationListener({
    clock,
    metrics: createMetrics(),
    needsHeartbeats: false,
    messageKeys: () => [MESSAGE_KEY],
  })
  const failures = new FailureLog('invalidation', new LogSpy(), clock)
  const subscription = new RedisSubscription({ listener, clock, failures })
  const settings = keyStoreConfig({ redisUrl: `redis://${redis.address}` }).redis
  const connection = new RedisConnection(createServerClient(settings, findServer(settings)), subscription)
  onTestFinished(() => connection.stop())
  subscription.attach(connection)
  connection.start()
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
