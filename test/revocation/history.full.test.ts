import { describe, expect, test } from 'vitest'
import { findViolations, type History, lagsOf, quantile, type Sample } from './history.ts'

const BOUND_MS = 1_000
const REVOKED = { askedAtMs: 9_990, committedAtMs: 10_000 }

function sample(
  sentAtMs: number,
  answer: 'accepted' | 'refused' | number,
  more: Partial<Sample> = {},
): Sample {
  const status = answer === 'accepted' ? 200 : answer === 'refused' ? 401 : answer
  const code = answer === 'refused' ? 'key_revoked' : ''
  return { key: 'revoked', replica: 0, sentAtMs, answeredAtMs: sentAtMs + 2, status, code, ...more }
}

/** One key revoked at 10 s, and asked for after the bound. */
function historyOf(...samples: Sample[]): History {
  const last = sample(20_000, 'refused')
  return { replicas: 1, samples: [...samples, last], revocations: new Map([['revoked', REVOKED]]) }
}

function kinds(history: History): string[] {
  return findViolations(history, BOUND_MS).map(({ kind }) => kind)
}

describe('a history is in order', () => {
  test('where a key is accepted up to its bound, and then refused', () => {
    const before = sample(9_000, 'accepted')
    expect(kinds(historyOf(before, sample(11_000, 'accepted'), sample(11_010, 'refused')))).toEqual([])
  })

  test('where a request that was sent in time is answered late', () => {
    expect(kinds(historyOf(sample(10_900, 'accepted', { answeredAtMs: 15_000 })))).toEqual([])
  })

  test('where a request overtakes another one on the same replica', () => {
    const slow = sample(10_000, 'accepted', { answeredAtMs: 10_500 })
    expect(kinds(historyOf(slow, sample(10_100, 'refused')))).toEqual([])
  })

  test('where one replica refuses what another one still accepts within the bound', () => {
    const other = { replica: 1 }
    const samples = [
      sample(10_010, 'refused'),
      sample(10_500, 'accepted', other),
      sample(20_000, 'refused', other),
    ]
    expect(kinds({ ...historyOf(...samples), replicas: 2 })).toEqual([])
  })

  test('where a key is refused between the asking and the answer', () => {
    expect(kinds(historyOf(sample(9_991, 'refused')))).toEqual([])
  })

  test('where other keys are accepted all the time', () => {
    expect(kinds(historyOf(sample(30_000, 'accepted', { key: 'good' })))).toEqual([])
  })
})

describe('a history is not in order', () => {
  test('where a revoked key is accepted a millisecond too late', () => {
    const late = sample(11_001, 'accepted')
    expect(findViolations(historyOf(late), BOUND_MS)).toEqual([
      { kind: 'accepted_late', lateByMs: 1, sample: late },
    ])
  })

  test('where a replica that refused accepts again, be it within the bound', () => {
    expect(kinds(historyOf(sample(10_010, 'refused'), sample(10_013, 'accepted')))).toEqual([
      'accepted_again',
    ])
  })

  test('where a good key is refused, whatever the reason', () => {
    const good = { key: 'good' }
    const samples = [sample(12_000, 'refused', good), sample(12_000, 401, { ...good, code: 'key_invalid' })]
    expect(kinds(historyOf(...samples))).toEqual(['refused_wrongly', 'refused_wrongly'])
  })

  test('where a key is refused before anybody asked for it', () => {
    expect(kinds(historyOf(sample(9_000, 'refused')))).toEqual(['refused_wrongly'])
  })

  test('where a revoked key is refused as one that does not exist', () => {
    expect(kinds(historyOf(sample(10_500, 401, { code: 'key_invalid' })))).toEqual([
      'refused_for_another_reason',
    ])
  })

  test.each([0, 404, 500, 503])('where a request fails with %i', status => {
    expect(kinds(historyOf(sample(10_500, status), sample(10_500, status, { key: 'good' })))).toEqual([
      'failed',
      'failed',
    ])
  })

  test('where nobody asked a replica after the bound: nothing is shown then', () => {
    expect(kinds({ ...historyOf(sample(11_000, 'refused', { replica: 1 })), replicas: 2 })).toEqual([
      'not_shown',
    ])
  })
})

describe('the lag', () => {
  const samples = [
    sample(9_000, 'accepted'),
    sample(10_020, 'accepted'),
    sample(10_040, 'refused'),
    sample(10_300, 'refused'),
    sample(10_005, 'refused', { replica: 1 }),
  ]

  test('is that of the first refusal and of the last acceptance, for each key and replica', () => {
    expect(lagsOf(historyOf(...samples))).toEqual({ firstRefusalMs: [7, 42], lastAcceptanceMs: [20] })
    expect(lagsOf(historyOf(...samples), 1)).toEqual({ firstRefusalMs: [7], lastAcceptanceMs: [] })
  })

  test('has quantiles that are values that occurred', () => {
    const hundred = Array.from({ length: 100 }, (_, index) => index + 1)
    expect([0.5, 0.99, 1].map(share => quantile(hundred, share))).toEqual([50, 99, 100])
    expect(quantile([7], 0.5)).toBe(7)
    expect(quantile([], 0.5)).toBeNaN()
  })
})
