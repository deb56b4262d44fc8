import { type Contestant, contestantNamed } from './contestants.ts'
import { measureWarm, medianOf, type Samples } from './measure.ts'
import { median } from './statistics.ts'

/** What is asked of a gateway beside its share of a processor. */
export interface SideFigures {
  /** Of the gateway and of the bare Node proxy when each serves all it can. */
  readonly p99AtLimitMs: { readonly gateway: number; readonly httpProxy: number }
  /**
   * At half the requests per second that the gateway can serve; added to what the upstream alone takes at that rate. Of
   * the gateway, and of the least that a Node proxy can be.
   */
  readonly p99AddedAtHalfMs: { readonly gateway: number; readonly leastProxy: number }
}

/**
 * Many and short, for the machine is slow for a tenth of a second now and then: at half load that makes a queue, and of
 * turns of several seconds each holds one.
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
  // The first turn does not count: after a minute of quiet any Node process is slow for a second or two.
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
