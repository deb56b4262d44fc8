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
  const perSecond = medianOf(samples, 'gateway, 0.4 KB', 'perSecond') / 2
  return { p99AtLimitMs, p99AddedAtHalfMs: await p99Added(contestants, perSecond) }
}

async function p99Added(contestants: readonly Contestant[], perSecond: number) {
  const gateway = contestantNamed('gateway, 0.4 KB', contestants)
  const leastProxy = contestantNamed('node:http + undici, no auth, 0.4 KB', contestants)
  const upstream = contestantNamed('upstream alone, 0.4 KB', contestants)
  const p99Ms = async (contestant: Contestant) =>
    (await measureWarm(contestant, SECONDS, perSecond)).p99Us / 1000
  const added: { gateway: number; leastProxy: number }[] = []
  // The first turn does not count: after a minute without load every Node process is slow for a second or two.
  for (let turn = 0; turn <= TURNS; turn++) {
    const times = { gateway: await p99Ms(gateway), leastProxy: await p99Ms(leastProxy) }
    const aloneMs = await p99Ms(upstream)
    if (turn > 0) added.push({ gateway: times.gateway - aloneMs, leastProxy: times.leastProxy - aloneMs })
  }
  return {
    gateway: median(added.map(turn => turn.gateway)),
    leastProxy: median(added.map(turn => turn.leastProxy)),
  }
}
