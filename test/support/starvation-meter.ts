import { readFileSync } from 'node:fs'

const SAMPLE_EVERY_MS = 20
const WINDOW_MS = 1_000

interface WaitSample {
  readonly atMs: number
  /** Time that the processes have waited for a processor since their start, in total. */
  readonly waitedMs: number
}

/**
 * Measures how long other programs kept processes from running. A test adds it to a bound in ms, which then holds on a
 * loaded machine and stays as strict on an idle one, where it is a few milliseconds.
 */
export class StarvationMeter {
  readonly #pids: readonly number[]
  readonly #samples: WaitSample[] = []
  readonly #timer: NodeJS.Timeout

  constructor(pids: readonly number[]) {
    this.#pids = pids
    this.#sample()
    this.#timer = setInterval(() => this.#sample(), SAMPLE_EVERY_MS)
  }

  /** The longest wait for a processor within one second, summed over the processes. */
  get longestMs(): number {
    let longestMs = 0
    let first = 0
    for (const [index, { atMs, waitedMs }] of this.#samples.entries()) {
      while (first < index - 1 && atMs - (this.#samples[first]?.atMs ?? 0) > WINDOW_MS) first++
      longestMs = Math.max(longestMs, waitedMs - (this.#samples[first]?.waitedMs ?? waitedMs))
    }
    return longestMs
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #sample(): void {
    const waitedMs = this.#pids.reduce((sum, pid) => sum + waitedMsOf(pid), 0)
    this.#samples.push({ atMs: performance.now(), waitedMs })
  }
}

/** The second field is the time on a run queue, in nanoseconds (Linux, Documentation/scheduler/sched-stats.rst). */
function waitedMsOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0 // Redis is not running during some faults.
  }
}
