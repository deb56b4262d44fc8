import { type Contestant, contestantNamed } from './contestants.ts'
import { measureWarm, medianOf, type Samples } from './measure.ts'
import { median } from './statistics.ts'

/** Latency figures of a gateway. */
export interface SideFigures {
  /** The gateway and the bare Node proxy, each at its maximum rate. */
  readonly p99AtLimitMs: { readonly gateway: number; readonly httpProxy: number }
  /**
   * At half the gateway's maximum rate, in addition to the upstream's own latency at that rate: for the gateway, and for
   * the lower bound of a Node proxy.
   */
  readonly p99AddedAtHalfMs: { readonly gateway: number; readonly leastProxy: number }
}

/**
 * Many short turns, because the machine stalls for a tenth of a second now and then. At half load that builds a queue,
 * and each of a few long turns would contain one.
 */
const TURNS = 15
const SECONDS = 1

export async function measureSideFigures(
  contestants: readonly Contestant[],
  samples: Samples,
): Promise<SideFigures> {
  const p99AtLimitMs = {
    gateway: medianOf(samples, 'gateway, 0.4 KB', 'p99Us') / 1000,
    httpProxy: medianOf(samples, 'http-proxy-3, 0.4 KB', 'p99Us') / 1000,
  }
  const p99AddedAtHalfMs = await p99AddedMs(contestants, samples, {
    gateway: 'gateway, 0.4 KB',
    leastProxy: 'node:http + undici, no auth, 0.4 KB',
  })
  return { p99AtLimitMs, p99AddedAtHalfMs }
}

/** In addition to the upstream's own, at half of the gateway's maximum rate. @param names of contestants, by what they are called in the result */
export async function p99AddedMs<Name extends string>(
  contestants: readonly Contestant[],
  samples: Samples,
  names: Readonly<Record<Name, string>>,
): Promise<Record<Name, number>> {
  const perSecond = medianOf(samples, 'gateway, 0.4 KB', 'perSecond') / 2
  const upstream = contestantNamed('upstream alone, 0.4 KB', contestants)
  const p99Ms = async (contestant: Contestant) =>
    (await measureWarm(contestant, SECONDS, perSecond)).p99Us / 1000
  const measured = Object.entries<string>(names).map(([name, contestant]) => ({
    name,
    contestant: contestantNamed(contestant, contestants),
    addedMs: [] as number[],
  }))
  // The first turn does not count: after a minute without load every Node process is slow for a second or two.
  for (let turn = 0; turn <= TURNS; turn++) {
    const turnMs: number[] = []
    for (const { contestant } of measured) turnMs.push(await p99Ms(contestant))
    const aloneMs = await p99Ms(upstream)
    if (turn === 0) continue
    for (const [index, { addedMs }] of measured.entries())
      addedMs.push((turnMs[index] ?? Number.NaN) - aloneMs)
  }
  // The names of `names`.
  return Object.fromEntries(measured.map(({ name, addedMs }) => [name, median(addedMs)])) as Record<
    Name,
    number
  >
}
