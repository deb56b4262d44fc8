import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ChangeConfirmer } from '../../../src/keys/reports/change-confirmer.ts'
import type {
  KeyServiceRequest,
  KeyServiceResponse,
} from '../../../src/keys/tiers/key-service/key-service-client.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { digestNo } from '../../support/key-records.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'

interface Told {
  readonly hearing: boolean
  readonly leaving: boolean
  readonly confirmed: readonly { digest: string; version: number }[]
}

const SECOND_MS = 1_000
const GATHER_MS = 20
let clock: ManualClock
let log: LogSpy
let told: Told[]
let reply: () => Promise<KeyServiceResponse>
let confirmer: ChangeConfirmer

beforeEach(() => {
  vi.useFakeTimers()
  clock = new ManualClock()
  log = new LogSpy()
  told = []
  reply = async () => ({ status: 204, text: '' })
  confirmer = create()
})
afterEach(() => vi.useRealTimers())

function create(more: { maxWaiting?: number } = {}): ChangeConfirmer {
  const client = {
    request: ({ method, path, body }: KeyServiceRequest) => {
      expect([method, path]).toEqual(['POST', '/confirmations'])
      // What is told is read back here, in the shape that the key service's contract gives it.
      told.push(body as Told)
      return reply()
    },
  }
  const failures = new FailureLog('change confirmation', log, clock)
  const gateway = { id: 'g1', name: 'pod-1' }
  return new ChangeConfirmer({ client, clock, failures, gateway, timeoutMs: 100, ...more })
}

/** Long enough for what was gathered to be told and answered. */
const gathered = () => vi.advanceTimersByTimeAsync(GATHER_MS)

const confirmed = () =>
  told.flatMap(report => report.confirmed.map(({ digest, version }) => [digest, version]))

test('a burst of changes is confirmed in one call, each with its latest version', async () => {
  for (let key = 0; key < 100; key++) confirmer.applied(digestNo(key), 2)
  confirmer.applied(digestNo(7), 3)
  await gathered()
  expect(told).toHaveLength(1)
  expect(confirmed()).toHaveLength(100)
  expect(confirmed()).toContainEqual([digestNo(7), 3])
})

test('that a key was issued is confirmed to nobody: there was nothing to forget', async () => {
  confirmer.applied(digestNo(1), 1)
  await gathered()
  expect(told).toEqual([])
})

test('a gateway tells of itself at once, then every five seconds, every half while disconnected, and when that changes', async () => {
  const watched = async (isConnected: boolean, afterMs: number) => {
    clock.advance(afterMs)
    confirmer.watch(isConnected)
    await gathered()
    return told.length
  }
  expect(await watched(true, 0)).toBe(1)
  expect(await watched(true, 4_999)).toBe(1)
  expect(await watched(true, 1)).toBe(2)
  expect(await watched(false, 250)).toBe(3)
  expect(told.at(-1)).toMatchObject({ hearing: false })
  expect(await watched(false, 499)).toBe(3)
  expect(await watched(false, 1)).toBe(4)
  expect(await watched(true, 250)).toBe(5)
})

test('what cannot be told is told a second later, and no earlier, whatever happens meanwhile', async () => {
  reply = () => Promise.reject(new Error('away'))
  confirmer.applied(digestNo(1), 2)
  await gathered()
  reply = async () => ({ status: 204, text: '' })
  confirmer.applied(digestNo(2), 2)
  await gathered()
  confirmer.watch(true)
  expect(told).toHaveLength(1)
  clock.advance(SECOND_MS)
  confirmer.watch(true)
  await gathered()
  expect(told.at(-1)?.confirmed).toHaveLength(2)
})

test.each([400, 409, 413, 415, 422])(
  'what is refused with %i is dropped and logged; later confirmations go on',
  async status => {
    reply = async () => ({ status, text: '' })
    for (let key = 0; key < 600; key++) confirmer.applied(digestNo(key), 2)
    await gathered()
    expect(told.map(report => report.confirmed.length)).toEqual([250, 250, 100])
    expect(log.text).toContain(`responded with status ${status}`)
    reply = async () => ({ status: 204, text: '' })
    told = []
    confirmer.applied(digestNo(1_000), 2)
    await gathered()
    expect(confirmed()).toEqual([[digestNo(1_000), 2]])
    expect(log.count('change confirmation recovered')).toBe(1)
  },
)

test.each([401, 403, 408, 429, 500, 503])(
  'what is answered %i is kept: it was not what was refused',
  async status => {
    reply = async () => ({ status, text: '' })
    confirmer.applied(digestNo(1), 2)
    await gathered()
    reply = async () => ({ status: 204, text: '' })
    await tellAgain()
    expect(confirmed()).toEqual([[digestNo(1), 2]])
  },
)

test('an own key service that does not want to know is left alone for an hour, without a word in the log', async () => {
  reply = async () => ({ status: 404, text: '' })
  confirmer.watch(true)
  await gathered()
  clock.advance(3_599_999)
  confirmer.applied(digestNo(1), 2)
  await gathered()
  confirmer.watch(true)
  expect(told).toHaveLength(1)
  clock.advance(1)
  confirmer.watch(true)
  await gathered()
  expect(told).toHaveLength(2)
  expect(log.text).not.toContain('failing')
})

test('while nobody can be told, memory stays bounded: the first are forgotten', async () => {
  confirmer = create({ maxWaiting: 3 })
  for (const key of [1, 2, 3, 4]) confirmer.applied(digestNo(key), 2)
  await gathered()
  expect(confirmed()).toEqual([
    [digestNo(2), 2],
    [digestNo(3), 2],
    [digestNo(4), 2],
  ])
})

/** The first call is not answered until `fail` is called; those after it are taken. */
function holdFirstCall(): { fail: () => void } {
  const first = Promise.withResolvers<KeyServiceResponse>()
  reply = () => {
    reply = async () => ({ status: 204, text: '' })
    return first.promise
  }
  return { fail: () => first.reject(new Error('away')) }
}

async function tellAgain(): Promise<void> {
  await gathered()
  told = []
  clock.advance(SECOND_MS)
  confirmer.watch(true)
  await gathered()
}

test('a version that is applied while an earlier one is on its way is told after it', async () => {
  reply = () => {
    if (told.length === 1) confirmer.applied(digestNo(1), 3)
    return Promise.resolve({ status: 204, text: '' })
  }
  confirmer.applied(digestNo(1), 2)
  await gathered()
  expect(confirmed()).toEqual([
    [digestNo(1), 2],
    [digestNo(1), 3],
  ])
})

test('what could not be told is told again, and where a later version was applied meanwhile that one alone', async () => {
  const call = holdFirstCall()
  for (const key of [1, 2]) confirmer.applied(digestNo(key), 2)
  await gathered()
  confirmer.applied(digestNo(1), 3)
  call.fail()
  await tellAgain()
  expect(confirmed()).toEqual([
    [digestNo(1), 3],
    [digestNo(2), 2],
  ])
})

test('what could not be told gives way to what was applied since, where there is no room for both', async () => {
  confirmer = create({ maxWaiting: 3 })
  const call = holdFirstCall()
  for (const key of [1, 2, 3]) confirmer.applied(digestNo(key), 2)
  await gathered()
  for (const key of [4, 5]) confirmer.applied(digestNo(key), 2)
  call.fail()
  await tellAgain()
  expect(confirmed()).toEqual([
    [digestNo(4), 2],
    [digestNo(5), 2],
    [digestNo(1), 2],
  ])
})

test('it is introduced once the console has taken note that it is connected, and not before', async () => {
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

test('a key service that does not want to know is never introduced to it', async () => {
  let isIntroduced = false
  void confirmer.introduced.then(() => {
    isIntroduced = true
  })
  reply = async () => ({ status: 404, text: '' })
  confirmer.watch(true)
  await gathered()
  expect([told.length, isIntroduced]).toEqual([1, false])
})

test('at the end it takes leave, so that nobody waits for it', async () => {
  confirmer.watch(true)
  await confirmer.stop(AbortSignal.timeout(100))
  expect(told.at(-1)).toMatchObject({ leaving: true, hearing: false })
})
