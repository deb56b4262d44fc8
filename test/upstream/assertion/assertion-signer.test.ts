import { generateKeyPairSync } from 'node:crypto'
import { afterEach, expect, test, vi } from 'vitest'
import { parseAssertionKey } from '../../../src/domain/pem.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { createSigner } from '../../../src/upstream/assertion/assertions.ts'
import { assertionKeyPem } from '../../support/assertion-keys.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const CLAIMS = {
  iss: 'postern',
  aud: 'files',
  sub: 'key_01',
  workspace_id: 'ws_1',
  scope: '',
  iat: 1,
  exp: 61,
}

function keyOf(pem: string) {
  const key = parseAssertionKey(pem)
  if (typeof key === 'string') throw new Error(key)
  return key
}

afterEach(() => vi.useRealTimers())

function reporting() {
  const clock = new ManualClock()
  const log = new LogSpy()
  const counts = { signed: 0, failed: 0, observed: 0 }
  const seconds: number[] = []
  const reports = {
    signed: { inc: () => (counts.signed += 1) },
    failed: { inc: () => (counts.failed += 1) },
    seconds: {
      observe: (value: number) => {
        seconds.push(value)
        counts.observed += 1
      },
    },
    failures: new FailureLog('assertion signing', log, clock),
    // Each look at the clock takes half a second.
    monotonicMs: () => {
      clock.advance(500)
      return clock.monotonicMs()
    },
  }
  return { log, counts, seconds, reports }
}

test('a failure to sign is counted and logged, and so is the recovery', async () => {
  const { log, counts, seconds, reports } = reporting()
  const key = keyOf(assertionKeyPem())
  const unfit = { ...key, privateKey: generateKeyPairSync('x25519').privateKey }
  await expect(createSigner(unfit, reports)(CLAIMS)).rejects.toThrow()
  expect(counts).toEqual({ signed: 0, failed: 1, observed: 0 })
  expect(log.lines.map(({ message }) => message)).toEqual(['assertion signing failing'])
  expect(await createSigner(key, reports)(CLAIMS)).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/)
  expect(counts).toEqual({ signed: 1, failed: 1, observed: 1 })
  expect(seconds).toEqual([0.5])
  expect(log.lines.map(({ message }) => message)).toContain('assertion signing recovered')
})

test('a signature that never comes fails after its deadline', async () => {
  vi.useFakeTimers()
  const signing = createSigner(keyOf(assertionKeyPem()), reporting().reports)(CLAIMS)
  // Before the thread that signs can answer.
  vi.advanceTimersByTime(5_000)
  await expect(signing).rejects.toThrow('not signed within 5000 ms')
})
