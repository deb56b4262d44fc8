import { existsSync, readFileSync } from 'node:fs'

const SAMPLE_EVERY_MS = 20
const WINDOW_MS = 1_000
/** A timer is late by this much on any machine. */
const LATE_MS = 30
/** Stands for the time in which the whole machine stood still, as a virtual one that its host pauses. */
const MACHINE = 0

interface WaitSample {
  readonly atMs: number
  /** Time that the process has waited for a processor since its start. */
  readonly waitedMs: number
}

/**
 * Measures how long other programs, or a pause of the whole machine, kept processes from running: a few milliseconds on an
 * idle machine.
 */
export class StarvationMeter {
  readonly #samples: ReadonlyMap<number, WaitSample[]>
  readonly #timer: NodeJS.Timeout
  #last = usedTimes()
  #stoodStillMs = 0

  constructor(pids: readonly number[]) {
    this.#samples = new Map([MACHINE, ...pids].map(pid => [pid, []]))
    this.#sample()
    this.#timer = setInterval(() => this.#sample(), SAMPLE_EVERY_MS)
  }

  /** The longest time for which any of the processes waited within one second. */
  get longestMs(): number {
    return Math.max(...[...this.#samples.values()].map(longestWaitMs))
  }

  /** The longest time for which any of the processes waited between two times, in ms since the epoch, and the machine stood still. */
  waitedMs(fromMs: number, toMs: number): number {
    const [machine = 0, ...processes] = this.#waitsMs(fromMs, toMs)
    return machine + Math.max(0, ...processes)
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
    // What has just arrived may come before the sample after a pause.
    if (to > this.#last.atMs) this.#sample()
    return [...this.#samples.values()].map(samples => waitBetween(samples, from, to))
  }

  #sample(): void {
    const now = usedTimes()
    const lostMs = now.atMs - this.#last.atMs - (now.usedMs - this.#last.usedMs) - SAMPLE_EVERY_MS
    if (lostMs > LATE_MS) this.#stoodStillMs += lostMs
    this.#last = now
    for (const [pid, samples] of this.#samples) {
      const waitedMs = pid === MACHINE ? this.#stoodStillMs : waitedMsOf(pid)
      if (waitedMs !== null) samples.push({ atMs: performance.now(), waitedMs })
    }
  }
}

/** When it is, and for how long this process has run or waited for a processor: the rest it slept, or could not run. */
function usedTimes(): { readonly atMs: number; readonly usedMs: number } {
  const { user, system } = process.cpuUsage()
  return { atMs: performance.now(), usedMs: (user + system) / 1_000 + (waitedMsOf(process.pid) ?? 0) }
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
