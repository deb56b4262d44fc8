import { expect, test } from 'vitest'
import { evaluateGoals } from './goals.ts'
import { ratiosOf, type Sample, type Samples } from './measure.ts'
import { median, quantile } from './statistics.ts'

function samplesOf(byName: Record<string, number[]>): Samples {
  const sampleOf = (cpuUs: number): Sample => ({ cpuUs, perSecond: 1, p50Us: 1, p99Us: 1 })
  return new Map(Object.entries(byName).map(([name, values]) => [name, values.map(sampleOf)]))
}

test('quantiles interpolate between neighbouring values', () => {
  expect([median([3, 1, 2]), median([4, 1]), quantile([1, 2, 3, 4, 5], 0.25)]).toEqual([2, 2.5, 2])
})

test('ratios are computed per round: a round in which all were slow changes nothing', () => {
  const samples = samplesOf({ ours: [10, 100, 10], theirs: [20, 200, 20] })
  expect(ratiosOf(samples, 'ours', 'theirs')).toEqual([0.5, 0.5, 0.5])
})

test('a goal against a contestant that did not run is skipped, neither met nor missed', () => {
  const samples = samplesOf({ ours: [10], theirs: [20] })
  const goals = [
    { name: 'ours', to: 'theirs', atMost: 0.4 },
    { name: 'ours', to: 'absent', atMost: 1 },
  ]
  expect(evaluateGoals(samples, goals).map(({ ratio, mark }) => [ratio, mark])).toEqual([[0.5, 'missed']])
})
