import { expect, test } from 'vitest'
import { cannotTell, judge, type Round, summarize, type Written } from './gate.ts'
import { readRatios } from './results.ts'
import { PAIR_NAMES } from './short.ts'

const WRITTEN: Written = { median: 1.5, referenceUs: 15 }

const QUIET = { referenceUs: 15, othersShare: 0.02 }

/** Five series of three rounds on a quiet machine: series 2 % apart, and rounds 1 %, around a ratio. */
function quiet(ratio: number, change: Partial<Round> = {}): Round[][] {
  return spread(ratio, 0.02).map(rounds => rounds.map(round => ({ ...round, ...change })))
}

/** Series that differ by a share of the ratio. */
function spread(ratio: number, apart: number): Round[][] {
  return [-2, -1, 0, 1, 2].map(series =>
    [-1, 0, 1].map(round => ({ ...QUIET, ratio: ratio * (1 + series * apart + round * 0.01) })),
  )
}

/** In the first rounds of all series other processes ran, and gave a ratio far above. */
function disturbed(count: number): Round[][] {
  let at = 0
  return quiet(1.5).map(rounds =>
    rounds.map(round => (at++ < count ? { ...round, ratio: 3, othersShare: 0.4 } : round)),
  )
}

test.each<[situation: string, verdict: string, measured: Round[][]]>([
  ['a quiet machine, the same ratio', 'unchanged', quiet(1.5)],
  ['a quiet machine, 7 % more', 'unchanged', quiet(1.5 * 1.07)],
  ['a quiet machine, 9 % more', 'worse', quiet(1.5 * 1.09)],
  ['a quiet machine, twice as much', 'worse', quiet(3)],
  ['a quiet machine, 9 % less', 'better', quiet(1.5 * 0.91)],
  ['a third of the rounds disturbed: the others count', 'unchanged', disturbed(5)],
  ['more than a third of the rounds disturbed', 'not measured', disturbed(6)],
  ['three series only', 'not measured', quiet(1.5).slice(2)],
  ['other work throughout, the same ratio', 'not measured', quiet(1.5, { othersShare: 0.3 })],
  ['other work throughout, twice as much', 'not measured', quiet(3, { othersShare: 0.3 })],
  ['new processes that differ by more than the gate', 'not measured', spread(1.5, 0.1)],
  ['new processes that differ by more than the gate, twice as much', 'not measured', spread(3, 0.1)],
  ['a machine on which the reference is a third slower', 'not measured', quiet(1.7, { referenceUs: 20 })],
  ['no round', 'not measured', []],
])('%s: %s', (_situation, verdict, measured) => {
  const judgement = judge(WRITTEN, measured)
  expect(judgement.verdict).toBe(verdict)
  expect(judgement.reason !== '').toBe(verdict === 'not measured')
})

test.each<[situation: string, after: number, measured: Round[][]]>([
  ['the reference is a third slower', 8, quiet(1.5, { referenceUs: 20 })],
  ['the reference is a third faster', 8, quiet(1.5, { referenceUs: 10 })],
  ['other programs run throughout', 6, quiet(1.5, { othersShare: 0.3 })],
])(
  'a comparison ends once the rest of 15 rounds cannot measure anything: %s',
  (_situation, after, measured) => {
    const rounds = measured.flat()
    expect(cannotTell(rounds.slice(0, after - 1), rounds.length, WRITTEN.referenceUs)).toBe(false)
    expect(cannotTell(rounds.slice(0, after), rounds.length, WRITTEN.referenceUs)).toBe(true)
    // And it would have said so after all of them.
    expect(judge(WRITTEN, measured).verdict).toBe('not measured')
  },
)

test('a comparison that this machine can make is not ended', () => {
  const rounds = quiet(1.7).flat()
  expect(cannotTell(rounds, rounds.length, WRITTEN.referenceUs)).toBe(false)
})

test('noise never widens the bound: a ratio passes or fails at the same figure, or nothing is measured', () => {
  for (const ratio of [1.55, 1.6, 1.65, 1.7, 2, 3])
    for (const noise of [0, 0.01, 0.02, 0.04, 0.08, 0.2])
      expect(['not measured', ratio > 1.5 * 1.08 ? 'worse' : 'unchanged']).toContain(
        judge(WRITTEN, spread(ratio, noise)).verdict,
      )
})

test('what is written is the middle of quiet series of new processes, with the lowest and the highest', () => {
  expect(summarize(spread(1.5, 0.02))).toEqual({
    median: 1.5,
    low: expect.closeTo(1.44),
    high: expect.closeTo(1.56),
  })
})

test.each<[string, Round[][]]>([
  ['more than a third of the rounds were disturbed', disturbed(6)],
  ['the series scatter', spread(1.5, 0.1)],
])('nothing is written if %s', (_what, series) => {
  expect(summarize(series)).toEqual(expect.any(String))
})

test('each ratio that the short bench measures has a written one to be compared with, and none is written in vain', () => {
  expect(Object.keys(readRatios().ratios)).toEqual(PAIR_NAMES)
})
