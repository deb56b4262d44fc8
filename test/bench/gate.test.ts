import { expect, test } from 'vitest'
import { judge, type Round, summarize, type Written } from './gate.ts'

const WRITTEN: Written = { median: 1.5, floorUs: 15 }

/** Nine rounds on a quiet machine, 1 % apart, around a ratio. */
function rounds(ratio: number, change: Partial<Round> = {}): Round[] {
  return [-4, -3, -2, -1, 0, 1, 2, 3, 4]
    .map(step => 1 + step / 100)
    .map(factor => ({
      ratio: ratio * factor,
      floorUs: 15,
      othersShare: 0.02,
      ...change,
    }))
}

const scattered = (ratio: number): Round[] =>
  [0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4].map(factor => ({
    ratio: ratio * factor,
    floorUs: 15,
    othersShare: 0.02,
  }))

/** The first rounds were disturbed, and gave a ratio far above. */
const disturbed = (count: number): Round[] =>
  rounds(1.5).map((round, at) => (at < count ? { ...round, ratio: 3, othersShare: 0.4 } : round))

test.each<[situation: string, verdict: string, measured: Round[]]>([
  ['a quiet machine, the same ratio', 'unchanged', rounds(1.5)],
  ['a quiet machine, 7 % more', 'unchanged', rounds(1.5 * 1.07)],
  ['a quiet machine, 9 % more', 'worse', rounds(1.5 * 1.09)],
  ['a quiet machine, twice as much', 'worse', rounds(3)],
  ['a quiet machine, 9 % less', 'better', rounds(1.5 * 0.91)],
  ['three disturbed rounds of nine: the others count', 'unchanged', disturbed(3)],
  ['four disturbed rounds of nine', 'not measured', disturbed(4)],
  ['other work throughout, the same ratio', 'not measured', rounds(1.5, { othersShare: 0.3 })],
  ['other work throughout, twice as much', 'not measured', rounds(3, { othersShare: 0.3 })],
  ['rounds that differ by more than the gate', 'not measured', scattered(1.5)],
  ['rounds that differ by more than the gate, twice as much', 'not measured', scattered(3)],
  ['a machine on which the bare server is a third slower', 'not measured', rounds(1.7, { floorUs: 20 })],
  ['no round', 'not measured', []],
])('%s: %s', (_situation, verdict, measured) => {
  const judgement = judge(WRITTEN, measured)
  expect(judgement.verdict).toBe(verdict)
  expect(judgement.reason !== '').toBe(verdict === 'not measured')
})

test('noise never widens the bound: a ratio passes or fails at the same figure, or nothing is measured', () => {
  for (const ratio of [1.55, 1.6, 1.65, 1.7, 2, 3])
    for (const noise of [0, 0.01, 0.02, 0.04, 0.08, 0.2]) {
      const noisy = [-4, -3, -2, -1, 0, 1, 2, 3, 4].map(step => ({
        ratio: ratio * (1 + step * noise),
        floorUs: 15,
        othersShare: 0.02,
      }))
      expect(['not measured', ratio > 1.5 * 1.08 ? 'worse' : 'unchanged']).toContain(
        judge(WRITTEN, noisy).verdict,
      )
    }
})

test('what is written is the middle of quiet series of new processes, with their spread', () => {
  expect(summarize([rounds(1.5), rounds(1.45), rounds(1.52)])).toEqual({
    median: 1.5,
    low: 1.45,
    high: 1.52,
  })
})

test.each<[string, Round[]]>([
  ['more than a third of the rounds were disturbed', [...rounds(1.5, { othersShare: 0.2 }), ...disturbed(4)]],
  ['one is further off than the gate’s tolerance', rounds(1.5 * 1.1)],
])('of several series nothing is written if %s', (_what, odd) => {
  expect(summarize([rounds(1.5), odd, rounds(1.49)])).toEqual(expect.any(String))
})

test('of several series nothing is written if the rounds of all are scattered', () => {
  expect(summarize([scattered(1.5), scattered(1.5), scattered(1.5)])).toEqual(expect.any(String))
})
