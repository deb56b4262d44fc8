import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import type { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { CHANGES_CHANNEL } from '../../../src/domain/wire.ts'
import { Changes } from '../../../src/keys/invalidation/invalidation-listener.ts'
import { RedisChangeSource } from '../../../src/keys/invalidation/redis-subscription.ts'
import { createMetrics } from '../../../src/observability/metrics.ts'
import { TroubleLog } from '../../../src/observability/trouble-log.ts'
import { RedisConnection } from '../../../src/redis/redis-connection.ts'
import { digestNo } from '../../support/key-records.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { changeMessage, MESSAGE_KEY } from '../../support/messages.ts'
import { settled } from '../../support/until.ts'

const IN_CHUNK = 200
const CHUNKS = 20

/** A client whose messages come out of its socket many at once, as from Redis. */
class Client extends EventEmitter {
  readonly stream = new PassThrough({ objectMode: true, highWaterMark: CHUNKS })

  constructor() {
    super()
    this.stream.on('data', (texts: string[]) => {
      for (const text of texts) this.emit('message', CHANGES_CHANNEL, text)
    })
  }
}

test('however many changes come at once, requests have their turn between them, and none is lost', async () => {
  const clock = new ManualClock()
  const changes = new Changes({
    clock,
    metrics: createMetrics(),
    beats: false,
    messageKeys: () => [MESSAGE_KEY],
  })
  const source = new RedisChangeSource({
    changes,
    clock,
    trouble: new TroubleLog('changes', new LogSpy(), clock),
  })
  const client = new Client()
  // Of a client the source needs its messages and its socket.
  source.attach(new RedisConnection(client as unknown as Redis, source))
  const heard: number[] = []
  changes.onChange(() => {
    heard.push(turn)
    return 'evicted'
  })
  let turn = 0
  for (let chunk = 0; chunk < CHUNKS; chunk++) {
    client.stream.write(Array.from({ length: IN_CHUNK }, (_, number) => changeNo(chunk * IN_CHUNK + number)))
  }
  while (heard.length < CHUNKS * IN_CHUNK) {
    await settled()
    turn++
  }
  const mostInTurn = Math.max(
    ...Array.from(Map.groupBy(heard, turn => turn).values(), ({ length }) => length),
  )
  expect(mostInTurn).toBeLessThan((CHUNKS * IN_CHUNK) / 2)
})

function changeNo(number: number): string {
  return changeMessage({ digest: digestNo(number), version: 2, atMs: 1 })
}
