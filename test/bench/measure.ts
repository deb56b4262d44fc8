import type { Contestant } from './contestants.ts'
import { processorTimeUs } from './processor-time.ts'
import { median } from './statistics.ts'
import { runWrk } from './wrk.ts'

/** One contestant in one round. Times are in microseconds. */
export interface Sample {
  readonly cpuUs: number
  readonly perSecond: number
  readonly p50Us: number
  readonly p99Us: number
}

/** Samples by contestant, in the order of rounds. */
export type Samples = Map<string, Sample[]>

export interface Pace {
  readonly rounds: number
  readonly seconds: number
}

/** Connections of a load, unless a contestant says otherwise. */
const CONNECTIONS = 64

/** Before the first round, so that the compiler has finished. */
const WARM_UP_SECONDS = 8

/** Before each turn, because an idle contestant reopens its connections and recompiles for half a second. */
export const LEAD_IN_SECONDS = 1

/** Every contestant has a turn in each round, so that disturbances affect all of them. */
export async function runRounds(
  contestants: readonly Contestant[],
  pace: Pace,
  tell: (text: string) => void,
): Promise<Samples> {
  const samples: Samples = new Map(contestants.map(({ name }) => [name, []]))
  await warmUp(contestants, WARM_UP_SECONDS, tell)
  for (let round = 1; round <= pace.rounds; round++)
    await runRound(contestants, { round, seconds: pace.seconds }, samples, text =>
      tell(`round ${round} of ${pace.rounds}: ${text}`),
    )
  return samples
}

export async function warmUp(
  contestants: readonly Contestant[],
  seconds: number,
  tell: (text: string) => void,
): Promise<void> {
  for (const contestant of contestants) {
    tell(`warming up: ${contestant.name}`)
    await measureOnce(contestant, seconds)
  }
}

/** Every other round runs in reverse order, so that no contestant always comes first. */
export async function runRound(
  contestants: readonly Contestant[],
  { round, seconds }: { round: number; seconds: number },
  samples: Samples,
  tell: (text: string) => void,
): Promise<void> {
  for (const contestant of round % 2 === 1 ? contestants : contestants.toReversed()) {
    tell(contestant.name)
    samples.get(contestant.name)?.push(await measureWarm(contestant, seconds))
  }
}

/** Measures after a lead-in that does not count. */
export async function measureWarm(
  contestant: Contestant,
  seconds: number,
  atMostPerSecond?: number,
): Promise<Sample> {
  await measureOnce(contestant, LEAD_IN_SECONDS, atMostPerSecond)
  return await measureOnce(contestant, seconds, atMostPerSecond)
}

/** @param atMostPerSecond limits the request rate; without it the load is as high as possible */
export async function measureOnce(
  contestant: Contestant,
  seconds: number,
  atMostPerSecond?: number,
): Promise<Sample> {
  const beforeUs = usedUs(contestant)
  const { connections = CONNECTIONS } = contestant
  const pace = atMostPerSecond === undefined ? {} : { delayMs: (connections / atMostPerSecond) * 1000 }
  const result = await runWrk({ ...contestant, connections, seconds, ...pace })
  const cpuUs = usedUs(contestant) - beforeUs
  const refused = contestant.expect.status >= 400 ? result.requests - result.refused : result.refused
  if (result.requests === 0) throw new NoResponseError(contestant.name)
  if (result.broken > 0 || refused !== 0) {
    throw new Error(`${contestant.name} returned unexpected responses: ${JSON.stringify(result)}`)
  }
  return {
    cpuUs: cpuUs / result.requests,
    perSecond: (result.requests / result.durationUs) * 1e6,
    p50Us: result.p50Us,
    p99Us: result.p99Us,
  }
}

/** A contestant answered nothing in its turn: it hangs, or the machine gave it no time. */
export class NoResponseError extends Error {
  constructor(name: string) {
    super(`${name} returned no response in its turn`)
  }
}

function usedUs({ pid, besidePid }: Contestant): number {
  return processorTimeUs(pid) + (besidePid === undefined ? 0 : processorTimeUs(besidePid))
}

export function medianOf(samples: Samples, name: string, figure: keyof Sample): number {
  return median((samples.get(name) ?? []).map(sample => sample[figure]))
}

/** One ratio per round, because only figures of the same round were measured under the same conditions. */
export function ratiosOf(samples: Samples, name: string, to: string): number[] {
  const own = samples.get(name) ?? []
  const others = samples.get(to) ?? []
  return own.flatMap((sample, round) => {
    const other = others[round]
    return other === undefined ? [] : [sample.cpuUs / other.cpuUs]
  })
}
