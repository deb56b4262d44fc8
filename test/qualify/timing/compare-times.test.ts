import { describe, expect, it } from 'vitest'
import { chance } from '../../fuzz/mutate.ts'
import {
  compare,
  DISTINCT_FROM,
  isDistinguishable,
  type Kind,
  leastDetectable,
  type TimedRequests,
} from './compare-times.ts'

const SUBJECTS = 64

/**
 * Times as on a network: a minimum, a skewed distribution, rare outliers, a drift, and a small offset of each subject
 * that is as large as the difference to detect.
 */
function timesLike(
  count: number,
  seed: number,
  slower: (time: number, random: () => number) => number,
): TimedRequests {
  const random = chance(seed)
  const own = Array.from({ length: SUBJECTS }, () => random() * 1000)
  const lots = own.map((_, subject) => ({ subject, lot: random() })).sort((a, b) => a.lot - b.lot)
  const kindOf: Kind[] = own.map((_, subject) =>
    lots.findIndex(lot => lot.subject === subject) % 2 === 0 ? 0 : 1,
  )
  const subjects = new Uint16Array(count).map(() => Math.floor(random() * SUBJECTS))
  const nanoseconds = new Float64Array(count).map((_, index) => {
    const subject = subjects[index] ?? 0
    const long = random() < 0.01 ? random() * 5e6 : 0
    const body = 100_000 - 20_000 * Math.log(1 - random()) + 50_000 * Math.sin(index / 500)
    const time = body + long + (own[subject] ?? 0)
    return Math.round(kindOf[subject] === 1 ? slower(time, random) : time)
  })
  return { subjects, nanoseconds, kindOf }
}

describe('two kinds of requests', () => {
  it.each([1, 2, 3, 4])('with equal times are not distinguished, in spite of drift: seed %i', seed => {
    const comparison = compare(timesLike(40_000, seed, time => time))
    expect(isDistinguishable(comparison)).toBe(false)
    expect(comparison.areaUnderCurve).toBeCloseTo(0.5, 1)
  })

  it.each<[string, (time: number, random: () => number) => number]>([
    ['always, by a few microseconds', time => time + 4000],
    ['seldom, by a millisecond', (time, random) => (random() < 0.02 ? time + 1e6 : time)],
    ['never on average, but with more variance', (time, random) => time + (random() - 0.5) * 150_000],
  ])('of which one is slower %s are distinguished', (_how, slower) => {
    expect(isDistinguishable(compare(timesLike(40_000, 1, slower)))).toBe(true)
  })

  it('follow the random assignment: rarely beyond 3 deviations by chance, and beyond 1 as often as a normal distribution', () => {
    const seeds = Array.from({ length: 100 }, (_, seed) => seed)
    const ranks = seeds.map(seed => compare(timesLike(1000, seed, time => time)).deviations.rank)
    expect(ranks.filter(rank => Math.abs(rank) > 3).length).toBeLessThanOrEqual(3)
    expect(ranks.filter(rank => Math.abs(rank) > 1).length).toBeGreaterThan(15)
    expect(ranks.filter(rank => Math.abs(rank) > 1).length).toBeLessThan(50)
    expect(ranks.filter(rank => Math.abs(rank) > DISTINCT_FROM)).toEqual([])
  })

  it('with constant times have no deviation, and half of the area under the curve', () => {
    const subjects = Uint16Array.from([0, 1, 2, 3, 0, 1, 2, 3])
    const nanoseconds = new Float64Array(8).fill(7)
    expect(compare({ subjects, nanoseconds, kindOf: [0, 1, 0, 1] })).toEqual({
      requests: 8,
      areaUnderCurve: 0.5,
      deviations: { rank: 0, slowestTenth: 0, slowestHundredth: 0 },
    })
  })

  it('come with the smallest difference that would have been detected', () => {
    const least = leastDetectable(timesLike(40_000, 3, time => time))
    expect(least).toBeGreaterThan(10)
    expect(least).toBeLessThan(20_000)
  })
})
