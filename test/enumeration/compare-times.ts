/**
 * Requests of two kinds, and the question whether they can be told apart by how long their answers take.
 *
 * Each request that is sent over and over, a subject here, differs a little from any other, in its bytes and in where
 * they lie in the client's memory, and a hundred thousand measurements show even that. So the lot decides of which kind
 * each subject is (which of the workspaces exist), and subjects are what is compared. If the server makes no difference
 * between the kinds, any other lot would have been as good: the difference between the means of both kinds then has, over
 * all lots, the mean 0 and a variance that is known exactly from the spread of the subjects, whatever the distribution of
 * times, however it drifts, and however one time hangs together with the next. What is reported is the difference in
 * units of that deviation. For 64 subjects beyond 5 comes up by chance once in 200,000 runs.
 *
 * Three scores look at three things: the rank of a time among all (is one kind slower? Its mean is the area under the ROC
 * curve, of whoever guesses the kind from one time), and whether it is among the slowest tenth and the slowest hundredth
 * (does one kind do something now and then that the other does not?).
 */
export interface TimedRequests {
  /** Which subject each request was. */
  readonly subjects: Uint16Array
  readonly nanoseconds: Float64Array
  /** Of each subject; both are of as many. */
  readonly kindOf: readonly Kind[]
}

export type Kind = 0 | 1

export interface Comparison {
  readonly requests: number
  /** Chance that a time of the second kind is longer than one of the first: 0.5 where they are alike. */
  readonly areaUnderCurve: number
  /** Per score, deviations from what the lot alone gives. */
  readonly deviations: {
    readonly rank: number
    readonly slowestTenth: number
    readonly slowestHundredth: number
  }
}

/** Deviations from which on two kinds are told apart; for three scores, one false alarm in some 70,000 runs. */
export const TOLD_APART = 5

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

export function isToldApart({ deviations }: Comparison): boolean {
  return Object.values(deviations).some(value => Math.abs(value) > TOLD_APART)
}

/** The least that one kind would have to be slower by, in nanoseconds, for these very times to be told apart. */
export function leastNoticed({ subjects, nanoseconds, kindOf }: TimedRequests): number {
  const slower = (by: number) =>
    nanoseconds.map((time, index) => (kindOf[subjects[index] ?? 0] === 1 ? time + by : time))
  let [low, high] = [0, 1e8]
  while (high - low > 10) {
    const middle = (low + high) / 2
    if (isToldApart(compare({ subjects, nanoseconds: slower(middle), kindOf }))) high = middle
    else low = middle
  }
  return high
}

/** The mean score of the second kind less that of the first, and how far that is from what lots give. */
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
  // Over all lots that make two kinds of the same size out of N subjects (R. A. Fisher's randomisation).
  const variance = (4 * spread) / means.length
  return { difference, deviations: variance === 0 ? 0 : difference / Math.sqrt(variance) }
}

/** Rank from 1; equal times share the middle one of theirs. */
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
