import type { Contestant } from './contestants.ts'
import { measureWarm, medianOf, type Samples } from './measure.ts'
import { median } from './statistics.ts'

/** What is asked of a gateway beside its share of a processor. */
export interface SideFigures {
  /** Of the gateway and of the bare Node proxy when each serves all it can. */
  readonly p99AtLimitMs: { readonly gateway: number; readonly httpProxy: number }
  /** At half the requests per second that the gateway can serve; added to what the upstream alone takes at that rate. */
  readonly p99AddedAtHalfMs: number
}

const TURNS = 5
const SECONDS = 3

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

async function p99Added(contestants: readonly Contestant[], perSecond: number): Promise<number> {
  const connections = 64
  const delayMs = (connections / perSecond) * 1000
  const gateway = contestants.find(({ name }) => name === 'gateway, 0.4 KB')
  const upstream = contestants.find(({ name }) => name === 'upstream alone, 0.4 KB')
  if (gateway === undefined || upstream === undefined) return Number.NaN
  const added: number[] = []
  for (let turn = 0; turn < TURNS; turn++) {
    const through = await measureWarm(gateway, connections, SECONDS, delayMs)
    const alone = await measureWarm(upstream, connections, SECONDS, delayMs)
    added.push((through.p99Us - alone.p99Us) / 1000)
  }
  return median(added)
}
