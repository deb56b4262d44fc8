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

/** A key revoked at 10 s, with one request after the bound. */
function historyOf(...samples: Sample[]): History {
  const last = sample(20_000, 'refused')
  return { replicas: 1, samples: [...samples, last], revocations: new Map([['revoked', REVOKED]]) }
}

function kinds(history: History): string[] {
  return findViolations(history, BOUND_MS).map(({ kind }) => kind)
}

describe('a history without violations', () => {
  test('accepts a key up to its bound and rejects it afterwards', () => {
    const before = sample(9_000, 'accepted')
    expect(kinds(historyOf(before, sample(11_000, 'accepted'), sample(11_010, 'refused')))).toEqual([])
  })

  test('may contain a late response to a request that was sent in time', () => {
    expect(kinds(historyOf(sample(10_900, 'accepted', { answeredAtMs: 15_000 })))).toEqual([])
  })

  test('may contain a request that overtakes another one on the same replica', () => {
    const slow = sample(10_000, 'accepted', { answeredAtMs: 10_500 })
    expect(kinds(historyOf(slow, sample(10_100, 'refused')))).toEqual([])
  })

  test('may contain one replica that rejects a key while another still accepts it within the bound', () => {
    const other = { replica: 1 }
    const samples = [
      sample(10_010, 'refused'),
      sample(10_500, 'accepted', other),
      sample(20_000, 'refused', other),
    ]
    expect(kinds({ ...historyOf(...samples), replicas: 2 })).toEqual([])
  })

  test('may contain a rejection between the revocation request and its response', () => {
    expect(kinds(historyOf(sample(9_991, 'refused')))).toEqual([])
  })

  test('accepts other keys all the time', () => {
    expect(kinds(historyOf(sample(30_000, 'accepted', { key: 'good' })))).toEqual([])
  })
})

describe('a violation is found if', () => {
  test('a revoked key is accepted a millisecond too late', () => {
    const late = sample(11_001, 'accepted')
    expect(findViolations(historyOf(late), BOUND_MS)).toEqual([
      { kind: 'accepted_late', lateByMs: 1, sample: late },
    ])
  })

  test('a replica that rejected a key accepts it again, even within the bound', () => {
    expect(kinds(historyOf(sample(10_010, 'refused'), sample(10_013, 'accepted')))).toEqual([
      'accepted_again',
    ])
  })

  test('a valid key is rejected for any reason', () => {
    const good = { key: 'good' }
    const samples = [sample(12_000, 'refused', good), sample(12_000, 401, { ...good, code: 'key_invalid' })]
    expect(kinds(historyOf(...samples))).toEqual(['refused_wrongly', 'refused_wrongly'])
  })

  test('a key is rejected before its revocation was requested', () => {
    expect(kinds(historyOf(sample(9_000, 'refused')))).toEqual(['refused_wrongly'])
  })

  test('a revoked key is rejected as one that does not exist', () => {
    expect(kinds(historyOf(sample(10_500, 401, { code: 'key_invalid' })))).toEqual([
      'refused_for_another_reason',
    ])
  })

  test.each([0, 404, 500, 503])('a request fails with %i', status => {
    expect(kinds(historyOf(sample(10_500, status), sample(10_500, status, { key: 'good' })))).toEqual([
      'failed',
      'failed',
    ])
  })

  test('no request was sent to a replica after the bound, so that nothing is proven', () => {
    expect(kinds({ ...historyOf(sample(11_000, 'refused', { replica: 1 })), replicas: 2 })).toEqual([
      'not_shown',
    ])
  })
})

describe('the revocation lag', () => {
  const samples = [
    sample(9_000, 'accepted'),
    sample(10_020, 'accepted'),
    sample(10_040, 'refused'),
    sample(10_300, 'refused'),
    sample(10_005, 'refused', { replica: 1 }),
  ]

  test('is measured to the first rejection and to the last acceptance, for each key and replica', () => {
    expect(lagsOf(historyOf(...samples))).toEqual({ firstRefusalMs: [7, 42], lastAcceptanceMs: [20] })
    expect(lagsOf(historyOf(...samples), 1)).toEqual({ firstRefusalMs: [7], lastAcceptanceMs: [] })
  })

  test('has quantiles that are measured values', () => {
    const hundred = Array.from({ length: 100 }, (_, index) => index + 1)
    expect([0.5, 0.99, 1].map(share => quantile(hundred, share))).toEqual([50, 99, 100])
    expect(quantile([7], 0.5)).toBe(7)
    expect(quantile([], 0.5)).toBeNaN()
  })
})
