/**
 * Decides whether requests of two kinds can be distinguished by their response times.
 *
 * Each request that is sent repeatedly, here called a subject, differs slightly from every other, in its bytes and in
 * their location in the client's memory, and a hundred thousand measurements reveal even that. The kind of each subject
 * (whether its workspace exists) is therefore drawn at random, and subjects are compared. If the server treats both
 * kinds alike, every other assignment was equally likely: over all assignments, the difference between the means of both
 * kinds has the mean 0 and a variance that follows exactly from the spread of the subjects, independent of the
 * distribution of times, of drift, and of correlation between successive times. The result is that difference in units
 * of its standard deviation. With 64 subjects, more than 5 occurs by chance once in 200,000 runs.
 *
 * Three scores cover three questions: the rank of a time among all (is one kind slower? Its mean is the area under the
 * ROC curve of a client that guesses the kind from one time), and whether it is among the slowest tenth and the slowest
 * hundredth (does one kind occasionally do something that the other does not?).
 */
export interface TimedRequests {
  /** The subject of each request. */
  readonly subjects: Uint16Array
  readonly nanoseconds: Float64Array
  /** The kind of each subject; both kinds have the same number. */
  readonly kindOf: readonly Kind[]
}

export type Kind = 0 | 1

export interface Comparison {
  readonly requests: number
  /** Probability that a time of the second kind is longer than one of the first: 0.5 if they are equal. */
  readonly areaUnderCurve: number
  /** For each score, the difference in standard deviations of a random assignment. */
  readonly deviations: {
    readonly rank: number
    readonly slowestTenth: number
    readonly slowestHundredth: number
  }
}

/** Threshold for distinguishing two kinds; with three scores, one false alarm in about 70,000 runs. */
export const DISTINCT_FROM = 5

export function compare(timed: TimedRequests): Comparison {
  const { nanoseconds } = timed
  const sorted = nanoseconds.toSorted()
  const beyond = (share: number) => {
    const limit = sorted[Math.floor(sorted.length * share)] ?? 0
    return deviation(
      timed,
      nanoseconds.map(time => (time > limit ? 1 : 0)),
    ).deviations
  }
  const rank = deviation(
    timed,
    nanoseconds.map(time => rankOf(sorted, time)),
  )
  return {
    requests: nanoseconds.length,
    areaUnderCurve: 0.5 + rank.difference / nanoseconds.length,
    deviations: { rank: rank.deviations, slowestTenth: beyond(0.9), slowestHundredth: beyond(0.99) },
  }
}

export function isDistinguishable({ deviations }: Comparison): boolean {
  return Object.values(deviations).some(value => Math.abs(value) > DISTINCT_FROM)
}

/** The smallest delay of one kind, in nanoseconds, that these measurements would have detected. */
export function leastDetectable({ subjects, nanoseconds, kindOf }: TimedRequests): number {
  const slower = (by: number) =>
    nanoseconds.map((time, index) => (kindOf[subjects[index] ?? 0] === 1 ? time + by : time))
  let [low, high] = [0, 1e8]
  while (high - low > 10) {
    const middle = (low + high) / 2
    if (isDistinguishable(compare({ subjects, nanoseconds: slower(middle), kindOf }))) high = middle
    else low = middle
  }
  return high
}

/** The mean score of the second kind minus that of the first, also in standard deviations of a random assignment. */
function deviation({ subjects, kindOf }: TimedRequests, scores: Float64Array) {
  const sums = kindOf.map(() => 0)
  const counts = kindOf.map(() => 0)
  for (const [index, score] of scores.entries()) {
    const subject = subjects[index] ?? 0
    sums[subject] = (sums[subject] ?? 0) + score
    counts[subject] = (counts[subject] ?? 0) + 1
  }
  const means = sums.map((sum, subject) => sum / (counts[subject] ?? 1))
  const mean = means.reduce((sum, one) => sum + one, 0) / means.length
  const spread = means.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (means.length - 1)
  const difference =
    means.reduce((sum, one, subject) => sum + (kindOf[subject] === 1 ? one : -one), 0) / (means.length / 2)
  // Over all assignments of N subjects to two kinds of the same size (R. A. Fisher's randomisation test).
  const variance = (4 * spread) / means.length
  return { difference, deviations: variance === 0 ? 0 : difference / Math.sqrt(variance) }
}

/** Rank from 1; equal times share the mean of their ranks. */
function rankOf(sorted: Float64Array, time: number): number {
  return (countBelow(sorted, time) + countBelow(sorted, time + SMALLEST_STEP) + 1) / 2
}

/** Times are whole nanoseconds, or halves after a shift. */
const SMALLEST_STEP = 1e-4

function countBelow(sorted: Float64Array, time: number): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sorted[middle] ?? 0) < time) low = middle + 1
    else high = middle
  }
  return low
}
