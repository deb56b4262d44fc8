import { existsSync, readFileSync } from 'node:fs'

const SAMPLE_EVERY_MS = 20
const WINDOW_MS = 1_000

interface WaitSample {
  readonly atMs: number
  /** Time that the process has waited for a processor since its start. */
  readonly waitedMs: number
}

/** Measures how long other programs kept processes from running: a few milliseconds on an idle machine. */
export class StarvationMeter {
  readonly #samples: ReadonlyMap<number, WaitSample[]>
  readonly #timer: NodeJS.Timeout

  constructor(pids: readonly number[]) {
    this.#samples = new Map(pids.map(pid => [pid, []]))
    this.#sample()
    this.#timer = setInterval(() => this.#sample(), SAMPLE_EVERY_MS)
  }

  /** The longest time for which any of the processes waited within one second. */
  get longestMs(): number {
    return Math.max(...[...this.#samples.values()].map(longestWaitMs))
  }

  /** The longest time for which any of the processes waited between two times, in ms since the epoch. */
  waitedMs(fromMs: number, toMs: number): number {
    return Math.max(...this.#waitsMs(fromMs, toMs))
  }

  /** The same of all processes together: what passes them one after the other is late by up to so long. */
  waitedInAllMs(fromMs: number, toMs: number): number {
    return this.#waitsMs(fromMs, toMs).reduce((sum, waitedMs) => sum + waitedMs, 0)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #waitsMs(fromMs: number, toMs: number): number[] {
    const [from, to] = [fromMs - performance.timeOrigin, toMs - performance.timeOrigin]
    return [...this.#samples.values()].map(samples => waitBetween(samples, from, to))
  }

  #sample(): void {
    for (const [pid, samples] of this.#samples) {
      const waitedMs = waitedMsOf(pid)
      if (waitedMs !== null) samples.push({ atMs: performance.now(), waitedMs })
    }
  }
}

function longestWaitMs(samples: readonly WaitSample[]): number {
  let longestMs = 0
  let first = 0
  for (const [index, { atMs, waitedMs }] of samples.entries()) {
    while (first < index - 1 && atMs - (samples[first]?.atMs ?? 0) > WINDOW_MS) first++
    longestMs = Math.max(longestMs, waitedMs - (samples[first]?.waitedMs ?? waitedMs))
  }
  return longestMs
}

function waitBetween(samples: readonly WaitSample[], fromMs: number, toMs: number): number {
  const first = samples.findLast(({ atMs }) => atMs <= fromMs) ?? samples[0]
  const last = samples.find(({ atMs }) => atMs >= toMs) ?? samples.at(-1)
  return Math.max(0, (last?.waitedMs ?? 0) - (first?.waitedMs ?? 0))
}

/**
 * The second field is the time on a run queue, in nanoseconds (Linux, Documentation/scheduler/sched-stats.rst).
 * @returns null once the process has ended
 */
function waitedMsOf(pid: number): number | null {
  const file = `/proc/${pid}/schedstat`
  return existsSync(file) ? Number(readFileSync(file, 'utf8').split(' ')[1]) / 1e6 : null
}
