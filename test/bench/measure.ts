import type { Contestant } from './contestants.ts'
import { processorTimeUs } from './processor-time.ts'
import { median } from './statistics.ts'
import { runWrk } from './wrk.ts'

/** One contestant in one round. Times in microseconds. */
export interface Sample {
  readonly cpuUs: number
  readonly perSecond: number
  readonly p50Us: number
  readonly p99Us: number
}

/** Samples by contestant, in order of rounds. */
export type Samples = Map<string, Sample[]>

export interface Pace {
  readonly rounds: number
  readonly seconds: number
}

/** Of every load. */
const CONNECTIONS = 64

/** Before the first round: the more code a request passes, the longer its compiler takes. */
const WARM_UP_SECONDS = 8

/** Before each turn: whoever was idle makes its connections anew, and its compiler is at work for half a second. */
export const LEAD_IN_SECONDS = 1

/**
 * Rounds in which everybody has a turn, so that what the machine does besides falls on all alike; every other round the
 * other way round, so that it is not always the same who comes first.
 */
export async function runRounds(
  contestants: readonly Contestant[],
  pace: Pace,
  tell: (text: string) => void,
): Promise<Samples> {
  const samples: Samples = new Map(contestants.map(({ name }) => [name, []]))
  for (const contestant of contestants) {
    tell(`warming up: ${contestant.name}`)
    await measureOnce(contestant, WARM_UP_SECONDS)
  }
  for (let round = 1; round <= pace.rounds; round++) {
    for (const contestant of round % 2 === 1 ? contestants : contestants.toReversed()) {
      tell(`round ${round} of ${pace.rounds}: ${contestant.name}`)
      samples.get(contestant.name)?.push(await measureWarm(contestant, pace.seconds))
    }
  }
  return samples
}

/** After a lead-in that does not count. */
export async function measureWarm(
  contestant: Contestant,
  seconds: number,
  atMostPerSecond?: number,
): Promise<Sample> {
  await measureOnce(contestant, LEAD_IN_SECONDS, atMostPerSecond)
  return await measureOnce(contestant, seconds, atMostPerSecond)
}

/** @param atMostPerSecond requests, where they are not to be as many as can be */
export async function measureOnce(
  contestant: Contestant,
  seconds: number,
  atMostPerSecond?: number,
): Promise<Sample> {
  const beforeUs = processorTimeUs(contestant.pid)
  const pace = atMostPerSecond === undefined ? {} : { delayMs: (CONNECTIONS / atMostPerSecond) * 1000 }
  const result = await runWrk({ ...contestant, connections: CONNECTIONS, seconds, ...pace })
  const cpuUs = processorTimeUs(contestant.pid) - beforeUs
  const refused = contestant.expect.status >= 400 ? result.requests - result.refused : result.refused
  if (result.requests === 0 || result.broken > 0 || refused !== 0) {
    throw new Error(`${contestant.name} answered not all as it should: ${JSON.stringify(result)}`)
  }
  return {
    cpuUs: cpuUs / result.requests,
    perSecond: (result.requests / result.durationUs) * 1e6,
    p50Us: result.p50Us,
    p99Us: result.p99Us,
  }
}

export function medianOf(samples: Samples, name: string, figure: keyof Sample): number {
  return median((samples.get(name) ?? []).map(sample => sample[figure]))
}

/** Round by round, because only within a round both saw the same machine. */
export function ratiosOf(samples: Samples, name: string, to: string): number[] {
  const own = samples.get(name) ?? []
  const others = samples.get(to) ?? []
  return own.flatMap((sample, round) => {
    const other = others[round]
    return other === undefined ? [] : [sample.cpuUs / other.cpuUs]
  })
}
