import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ChangeConfirmer, type ConfirmerParts } from '../../../src/keys/reports/change-confirmer.ts'
import type { KeyServiceRequest, KeyServiceResponse } from '../../../src/keys/tiers/key-service-client.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { digestNo } from '../../support/key-records.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const SECOND_MS = 1_000
const GATEWAY = { id: 'g1', name: 'pod-1', region: 'eu' }
const OK = { status: 204, text: '' }

let clock: ManualClock
let log: LogSpy
let requests: KeyServiceRequest[]
let reply: (signal: AbortSignal) => Promise<KeyServiceResponse>
let confirmer: ChangeConfirmer

beforeEach(() => {
  vi.useFakeTimers()
  clock = new ManualClock()
  log = new LogSpy()
  requests = []
  reply = async () => OK
  confirmer = create()
})
afterEach(() => vi.useRealTimers())

function create(more: Partial<ConfirmerParts> = {}): ChangeConfirmer {
  return new ChangeConfirmer({
    client: {
      request: (request, signal) => {
        requests.push(request)
        return reply(signal)
      },
    },
    clock,
    failures: new FailureLog('change confirmation', log, clock),
    gateway: GATEWAY,
    timeoutMs: 100,
    ...more,
  })
}

const gathered = () => vi.advanceTimersByTimeAsync(20)
const bodies = () => requests.map(({ body }) => body)
const patient = () => new AbortController().signal

test('a report names the gateway and its region, and its response may be long', async () => {
  confirmer.watch(true)
  await gathered()
  expect(requests).toEqual([
    {
      method: 'POST',
      path: '/confirmations',
      body: { gateway: GATEWAY, connected: true, leaving: false, confirmed: [], drain: undefined },
      maxBytes: 16_384,
    },
  ])
})

test('a gateway that was never connected says so in its first report', async () => {
  confirmer.applied(digestNo(1), 2)
  await gathered()
  expect(bodies()).toMatchObject([{ connected: false, confirmed: [{ digest: digestNo(1), version: 2 }] }])
})

test('a change is confirmed 20 ms after it was applied, with those applied meanwhile, and the next ones after it', async () => {
  confirmer.applied(digestNo(1), 2)
  await vi.advanceTimersByTimeAsync(19)
  confirmer.applied(digestNo(2), 2)
  expect(requests).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(bodies()).toMatchObject([{ confirmed: [{ digest: digestNo(1) }, { digest: digestNo(2) }] }])
  confirmer.applied(digestNo(3), 2)
  await gathered()
  expect(requests).toHaveLength(2)
})

test.each([200, 299])('the response to an accepted report (%i) is passed on', async status => {
  const onAccepted = vi.fn()
  confirmer = create({ onAccepted })
  reply = async () => ({ status, text: '{"gateways":3,"signingSecrets":["a"]}' })
  confirmer.watch(true)
  await gathered()
  expect(onAccepted).toHaveBeenCalledExactlyOnceWith({
    fingerprints: ['a'],
    gateways: 3,
    atMs: null,
    regions: [],
  })
})

test.each([199, 300, 399, 401, 403, 408, 425, 429, 500])(
  'a report that gets %i is repeated',
  async status => {
    const onAccepted = vi.fn()
    confirmer = create({ onAccepted })
    reply = async () => ({ status, text: '' })
    confirmer.applied(digestNo(1), 2)
    await gathered()
    expect(log.lines).toMatchObject([
      { fields: { reason: `The key service responded with status ${status}` } },
    ])
    reply = async () => OK
    clock.advance(SECOND_MS)
    confirmer.watch(false)
    await gathered()
    expect(bodies()[1]).toMatchObject({ confirmed: [{ digest: digestNo(1), version: 2 }] })
    expect(onAccepted).toHaveBeenCalledOnce()
    expect(log.count('change confirmation recovered')).toBe(1)
  },
)

test.each([400, 499])('a report that gets %i is dropped, and the log says how much it held', async status => {
  reply = async () => ({ status, text: '' })
  confirmer.applied(digestNo(1), 2)
  await gathered()
  const reason = `The key service responded with status ${status}; 1 confirmations dropped`
  expect(log.lines).toMatchObject([{ fields: { reason } }])
})

test('a call that gets no response is given up after its timeout, and repeated', async () => {
  reply = signal => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  confirmer.applied(digestNo(1), 2)
  await gathered()
  await vi.advanceTimersByTimeAsync(99)
  expect(log.lines).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(log.lines).toMatchObject([{ fields: { reason: 'The key service did not respond within 100 ms' } }])
})

test('a call that was answered leaves no timer behind', async () => {
  confirmer.watch(true)
  await gathered()
  expect(vi.getTimerCount()).toBe(0)
})

test('confirmations that wait are sent with the next watch, also if no report is due', async () => {
  reply = () => Promise.reject(new Error('away'))
  confirmer.watch(true)
  await gathered()
  clock.advance(SECOND_MS)
  reply = async () => OK
  confirmer.watch(true)
  await gathered()
  clock.advance(100)
  confirmer.applied(digestNo(1), 2)
  confirmer.watch(true)
  await vi.advanceTimersByTimeAsync(0)
  expect(bodies().at(-1)).toMatchObject({ confirmed: [{ digest: digestNo(1) }] })
})

describe('a gateway that stops', () => {
  test('waits for the report in flight, signs off with the outcome of its drain, and reports nothing more', async () => {
    const { promise, resolve } = Promise.withResolvers<KeyServiceResponse>()
    reply = () => promise
    confirmer.watch(true)
    const stopped = confirmer.stop(patient(), 'timed_out')
    await vi.advanceTimersByTimeAsync(0)
    expect(requests).toHaveLength(1)
    resolve(OK)
    await stopped
    confirmer.applied(digestNo(1), 2)
    confirmer.watch(false)
    await gathered()
    expect(bodies()).toMatchObject([
      { leaving: false },
      { connected: false, leaving: true, confirmed: [], drain: 'timed_out' },
    ])
    expect(requests).toHaveLength(2)
  })

  test('sends no confirmation that it had gathered: the console does not wait for it any more', async () => {
    confirmer.applied(digestNo(1), 2)
    await confirmer.stop(patient())
    await gathered()
    expect(bodies()).toMatchObject([{ leaving: true, confirmed: [] }])
  })

  test('signs off in vain, without an error, if the key service is down', async () => {
    reply = () => Promise.reject(new Error('away'))
    await expect(confirmer.stop(patient())).resolves.toBeUndefined()
    expect(requests).toHaveLength(1)
  })

  test('does not try right after a failure', async () => {
    reply = () => Promise.reject(new Error('away'))
    confirmer.watch(true)
    await gathered()
    await confirmer.stop(patient())
    expect(requests).toHaveLength(1)
  })

  test('ends a long series of reports after the one in flight', async () => {
    for (let key = 0; key < 600; key++) confirmer.applied(digestNo(key), 2)
    const { promise, resolve } = Promise.withResolvers<KeyServiceResponse>()
    reply = () => promise
    await gathered()
    const stopped = confirmer.stop(patient())
    resolve(OK)
    await stopped
    expect(bodies()).toMatchObject([{ leaving: false }, { leaving: true }])
  })
})
