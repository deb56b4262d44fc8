import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ChangeConfirmer } from '../../../src/keys/reports/change-confirmer.ts'
import type { KeyServiceRequest, KeyServiceResponse } from '../../../src/keys/tiers/key-service-client.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { digestNo } from '../../support/key-records.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'

interface SentReport {
  readonly connected: boolean
  readonly leaving: boolean
  readonly confirmed: readonly { digest: string; version: number }[]
}

const SECOND_MS = 1_000
const GATHER_MS = 20
let clock: ManualClock
let log: LogSpy
let reports: SentReport[]
let reply: () => Promise<KeyServiceResponse>
let confirmer: ChangeConfirmer

beforeEach(() => {
  vi.useFakeTimers()
  clock = new ManualClock()
  log = new LogSpy()
  reports = []
  reply = async () => ({ status: 204, text: '' })
  confirmer = create()
})
afterEach(() => vi.useRealTimers())

function create(more: { maxWaiting?: number } = {}): ChangeConfirmer {
  const client = {
    request: ({ method, path, body }: KeyServiceRequest) => {
      expect([method, path]).toEqual(['POST', '/confirmations'])
      // Reads the report back, in the form of the key service contract.
      reports.push(body as SentReport)
      return reply()
    },
  }
  const failures = new FailureLog('change confirmation', log, clock)
  const gateway = { id: 'g1', name: 'pod-1' }
  return new ChangeConfirmer({ client, clock, failures, gateway, timeoutMs: 100, ...more })
}

/** Waits until gathered confirmations were sent and the response arrived. */
const gathered = () => vi.advanceTimersByTimeAsync(GATHER_MS)

const confirmed = () =>
  reports.flatMap(report => report.confirmed.map(({ digest, version }) => [digest, version]))

test('a burst of changes is confirmed in one call, each with its latest version', async () => {
  for (let key = 0; key < 100; key++) confirmer.applied(digestNo(key), 2)
  confirmer.applied(digestNo(7), 3)
  await gathered()
  expect(reports).toHaveLength(1)
  expect(confirmed()).toHaveLength(100)
  expect(confirmed()).toContainEqual([digestNo(7), 3])
})

test('a new key is not confirmed: no gateway can hold an older version', async () => {
  confirmer.applied(digestNo(1), 1)
  await gathered()
  expect(reports).toEqual([])
})

test('a gateway reports at once, then every 5 s, every 0.5 s while disconnected, and when that state changes', async () => {
  const watched = async (isConnected: boolean, afterMs: number) => {
    clock.advance(afterMs)
    confirmer.watch(isConnected)
    await gathered()
    return reports.length
  }
  expect(await watched(true, 0)).toBe(1)
  expect(await watched(true, 4_999)).toBe(1)
  expect(await watched(true, 1)).toBe(2)
  expect(await watched(false, 250)).toBe(3)
  expect(reports.at(-1)).toMatchObject({ connected: false })
  expect(await watched(false, 499)).toBe(3)
  expect(await watched(false, 1)).toBe(4)
  expect(await watched(true, 250)).toBe(5)
})

test('after a failure a report is sent again a second later, and not earlier', async () => {
  reply = () => Promise.reject(new Error('away'))
  confirmer.applied(digestNo(1), 2)
  await gathered()
  reply = async () => ({ status: 204, text: '' })
  confirmer.applied(digestNo(2), 2)
  await gathered()
  confirmer.watch(true)
  expect(reports).toHaveLength(1)
  clock.advance(SECOND_MS)
  confirmer.watch(true)
  await gathered()
  expect(reports.at(-1)?.confirmed).toHaveLength(2)
})

test.each([400, 409, 413, 415, 422])(
  'a report rejected with %i is dropped and logged; later reports are sent',
  async status => {
    reply = async () => ({ status, text: '' })
    for (let key = 0; key < 600; key++) confirmer.applied(digestNo(key), 2)
    await gathered()
    expect(reports.map(report => report.confirmed.length)).toEqual([250, 250, 100])
    expect(log.text).toContain(`responded with status ${status}`)
    reply = async () => ({ status: 204, text: '' })
    reports = []
    confirmer.applied(digestNo(1_000), 2)
    await gathered()
    expect(confirmed()).toEqual([[digestNo(1_000), 2]])
    expect(log.count('change confirmation recovered')).toBe(1)
  },
)

test.each([401, 403, 408, 429, 500, 503])(
  'a report that gets %i is sent again: the report itself was not rejected',
  async status => {
    reply = async () => ({ status, text: '' })
    confirmer.applied(digestNo(1), 2)
    await gathered()
    reply = async () => ({ status: 204, text: '' })
    await retry()
    expect(confirmed()).toEqual([[digestNo(1), 2]])
  },
)

test('a key service without confirmations is not asked for five minutes, and no line is logged', async () => {
  reply = async () => ({ status: 404, text: '' })
  confirmer.watch(true)
  await gathered()
  clock.advance(299_999)
  confirmer.applied(digestNo(1), 2)
  await gathered()
  confirmer.watch(true)
  expect(reports).toHaveLength(1)
  clock.advance(1)
  confirmer.watch(true)
  await gathered()
  expect(reports).toHaveLength(2)
  expect(log.text).not.toContain('failing')
})

test.each([404, 405, 501])(
  'a %i after an accepted report does not come from the key service: the report is sent again, and logged',
  async status => {
    confirmer.watch(true)
    await gathered()
    reply = async () => ({ status, text: '' })
    confirmer.applied(digestNo(1), 2)
    await gathered()
    expect(log.text).toContain(`responded with status ${status}`)
    reply = async () => ({ status: 204, text: '' })
    reports = []
    await retry()
    expect(confirmed()).toEqual([[digestNo(1), 2]])
  },
)

test('while reports fail, memory stays bounded: the oldest confirmations are dropped', async () => {
  confirmer = create({ maxWaiting: 3 })
  for (const key of [1, 2, 3, 4]) confirmer.applied(digestNo(key), 2)
  await gathered()
  expect(confirmed()).toEqual([
    [digestNo(2), 2],
    [digestNo(3), 2],
    [digestNo(4), 2],
  ])
})

/** The first call gets no response until `fail` is called; later ones succeed. */
function holdFirstCall(): { fail: () => void } {
  const first = Promise.withResolvers<KeyServiceResponse>()
  reply = () => {
    reply = async () => ({ status: 204, text: '' })
    return first.promise
  }
  return { fail: () => first.reject(new Error('away')) }
}

async function retry(): Promise<void> {
  await gathered()
  reports = []
  clock.advance(SECOND_MS)
  confirmer.watch(true)
  await gathered()
}

test('a version applied while an earlier one is being sent is confirmed after it', async () => {
  reply = () => {
    if (reports.length === 1) confirmer.applied(digestNo(1), 3)
    return Promise.resolve({ status: 204, text: '' })
  }
  confirmer.applied(digestNo(1), 2)
  await gathered()
  expect(confirmed()).toEqual([
    [digestNo(1), 2],
    [digestNo(1), 3],
  ])
})

test('unsent confirmations are sent again, only with the latest version of each key', async () => {
  const call = holdFirstCall()
  for (const key of [1, 2]) confirmer.applied(digestNo(key), 2)
  await gathered()
  confirmer.applied(digestNo(1), 3)
  call.fail()
  await retry()
  expect(confirmed()).toEqual([
    [digestNo(1), 3],
    [digestNo(2), 2],
  ])
})

test('unsent confirmations are dropped in favour of newer ones if there is no room for both', async () => {
  confirmer = create({ maxWaiting: 3 })
  const call = holdFirstCall()
  for (const key of [1, 2, 3]) confirmer.applied(digestNo(key), 2)
  await gathered()
  for (const key of [4, 5]) confirmer.applied(digestNo(key), 2)
  call.fail()
  await retry()
  expect(confirmed()).toEqual([
    [digestNo(4), 2],
    [digestNo(5), 2],
    [digestNo(1), 2],
  ])
})

test('introduced settles once the console knows that the gateway is connected, and not before', async () => {
  let isIntroduced = false
  void confirmer.introduced.then(() => {
    isIntroduced = true
  })
  confirmer.watch(false)
  await gathered()
  expect(isIntroduced).toBe(false)
  reply = () => Promise.reject(new Error('away'))
  confirmer.watch(true)
  await gathered()
  expect(isIntroduced).toBe(false)
  reply = async () => ({ status: 204, text: '' })
  clock.advance(SECOND_MS)
  confirmer.watch(true)
  await gathered()
  expect(isIntroduced).toBe(true)
})

test('introduced never settles with a key service without confirmations', async () => {
  let isIntroduced = false
  void confirmer.introduced.then(() => {
    isIntroduced = true
  })
  reply = async () => ({ status: 404, text: '' })
  confirmer.watch(true)
  await gathered()
  expect([reports.length, isIntroduced]).toEqual([1, false])
})

test('a stopping gateway signs off, so that the console does not wait for it', async () => {
  confirmer.watch(true)
  await confirmer.stop(AbortSignal.timeout(100))
  expect(reports.at(-1)).toMatchObject({ leaving: true, connected: false })
})
