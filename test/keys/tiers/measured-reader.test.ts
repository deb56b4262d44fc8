import { ReplyError } from 'ioredis'
import { beforeEach, expect, test } from 'vitest'
import { RECORD_RANGE_END } from '../../../src/domain/wire.ts'
import { MeasuredReader } from '../../../src/keys/tiers/redis-store.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import type { RedisConnection } from '../../../src/redis/redis-connection.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { metricValue } from '../../support/metric-value.ts'

const TIMEOUT_MS = 250

let clock: ManualClock
let metrics: Metrics
beforeEach(() => {
  clock = new ManualClock()
  metrics = createMetrics()
})

/** A reader whose Redis responds after so long. */
function readerOf(ms: number, respond: () => Promise<Buffer>) {
  const asked: unknown[] = []
  const client = {
    getrangeBuffer: (...command: unknown[]) => {
      asked.push(command)
      clock.advance(ms)
      return respond()
    },
  }
  // The reader uses no other part of a connection.
  const connection = {
    client,
    writeTogether: () => void asked.push('together'),
  } as unknown as RedisConnection
  return { asked, reader: new MeasuredReader(connection, { metrics, clock, commandTimeoutMs: TIMEOUT_MS }) }
}

async function counted(outcome: string): Promise<number> {
  return metricValue(metrics.redisCommands, { command: 'getrange', outcome })
}

async function duration(): Promise<[count: number, seconds: number]> {
  const { values } = await metrics.redisCommandDuration.get()
  const of = (end: string) =>
    values.find(({ metricName, labels }) => metricName?.endsWith(end) && labels.command === 'getrange')
      ?.value ?? Number.NaN
  return [of('_count'), of('_sum')]
}

test('a record is read up to one byte more than it may have, together with other commands', async () => {
  const { reader, asked } = readerOf(3, async () => Buffer.from('record'))
  expect(String(await reader.read('postern:key:1'))).toBe('record')
  expect(asked).toEqual(['together', ['postern:key:1', 0, RECORD_RANGE_END]])
  expect([await counted('ok'), await duration()]).toEqual([1, [1, 0.003]])
})

// ioredis exports the class without a type.
const replied = Reflect.construct(ReplyError as never, ['LOADING']) as Error

test.each([
  ['error', 'an error', 5, replied],
  ['error', 'an error that comes late', TIMEOUT_MS, replied],
  ['timeout', 'nothing in time', TIMEOUT_MS, new Error('Command timed out')],
  ['timeout', 'nothing in time, by a timer that fires early', TIMEOUT_MS - 2, new Error('Command timed out')],
  ['unavailable', 'nothing, because there is no connection', 0, new Error('Connection is closed')],
  ['unavailable', 'nothing, because the connection was lost', TIMEOUT_MS - 3, new Error('closed')],
])('%s is counted if Redis replies with %s', async (outcome, _, ms, error) => {
  const { reader } = readerOf(ms, () => Promise.reject(error))
  await expect(reader.read('postern:key:1')).rejects.toBe(error)
  expect(await counted(outcome)).toBe(1)
  expect(await counted('ok')).toBe(0)
  // A command that was not sent took no time.
  expect(await duration()).toEqual(outcome === 'unavailable' ? [0, 0] : [1, ms / 1000])
})
