import { type EventLoopUtilization, performance } from 'node:perf_hooks'
import { getHeapSpaceStatistics } from 'node:v8'
import type { Config } from '../config/schema.ts'
import { InFlightLimit } from '../domain/in-flight-limit.ts'

const PERIOD_MS = 100
/** For so many periods the refusal of what is shed is held back. */
const HELD_PERIODS = 3
const MAX_HELD = 1000
/** Share of a period spent at work above which clients that retry at once after a rejection slow down other requests. */
const BUSY = 0.9

export interface AdmissionSettings extends Pick<Config['gateway'], 'maxLoopDelayMs' | 'maxHeapPercent'> {
  readonly maxInFlight: number
  /** So many are let in however late the process is. */
  readonly minInFlight: number
}

/** How busy the process was in one period. */
export interface Load {
  /** Mean time that a turn of the event loop worked: what each request waits for more than once. */
  readonly turnMs: number
  /** Part of the period in which the event loop worked, 0 to 1. */
  readonly utilization: number
  /** Part of the heap's limit that is in use by what lives long, 0 to 1. */
  readonly heap: number
}

/**
 * Whether a further request may be in flight now. Measured are the turns of the event loop: their length is what
 * requests wait for. (@fastify/under-pressure compares the mean lateness of a timer with a threshold, lets in all or
 * none for the next second, and answers in a hook of its own.)
 */
export class Admission {
  readonly #settings: AdmissionSettings
  readonly #inFlight: () => number
  readonly #limit: InFlightLimit
  #heapIsFull = false
  #isBusy = false
  #stopped = false
  #held = 0
  #releases: (() => void)[][] = Array.from({ length: HELD_PERIODS }, () => [])

  /** @param inFlight open requests, the current one included, rejected ones not */
  constructor(settings: AdmissionSettings, inFlight: () => number) {
    this.#settings = settings
    this.#inFlight = inFlight
    this.#limit = new InFlightLimit({ most: settings.maxInFlight, least: settings.minInFlight })
  }

  /** With the heap nearly full one at a time goes on: by it is found out when there is room again. */
  get limit(): number {
    return this.#heapIsFull ? 1 : this.#limit.value
  }

  /** Before the workspace is known: whether there may be room for the request. */
  admits(): boolean {
    return this.#inFlight() <= this.limit + this.#reserve
  }

  /**
   * Whether there is room for a request of this workspace. One workspace alone may have all that may be in flight; a quarter
   * more is for workspaces that hold at most that much, so that no workspace can keep others out.
   * @param ofWorkspace requests of the workspace that are in flight, this one included
   */
  admitsOf(ofWorkspace: number): boolean {
    return this.#inFlight() <= this.limit || ofWorkspace <= this.#reserve
  }

  get #reserve(): number {
    return Math.floor(this.limit / 4)
  }

  /**
   * Delays a rejection while the process is late or busy. Otherwise clients that ignore `Retry-After` would retry at
   * once, and rejecting them would starve other requests.
   */
  async holdBack(): Promise<void> {
    const late = this.#limit.value < this.#settings.maxInFlight
    const wanted = (late || this.#isBusy) && !this.#heapIsFull
    if (!wanted || this.#stopped || this.#held >= MAX_HELD) return
    this.#held++
    await new Promise<void>(resolve => this.#releases.at(-1)?.push(resolve))
  }

  /** Once per period. */
  note({ turnMs, utilization, heap }: Load): void {
    this.#isBusy = utilization > BUSY
    this.#heapIsFull = heap * 100 >= this.#settings.maxHeapPercent
    this.#limit.adjust(turnMs > this.#settings.maxLoopDelayMs, this.#inFlight())
    this.#release(this.#releases.shift() ?? [])
    this.#releases.push([])
  }

  /** Releases all delayed rejections and delays no more. */
  stop(): void {
    this.#stopped = true
    for (const held of this.#releases) this.#release(held.splice(0))
  }

  #release(held: readonly (() => void)[]): void {
    this.#held -= held.length
    for (const release of held) release()
  }
}

/**
 * Measures until it is stopped; its timer does not keep the process alive.
 * @param heapLimitBytes of what lives long
 * @returns a function that stops it
 */
export function watchLoad(heapLimitBytes: number, note: (load: Load) => void): () => void {
  let before = readLoop()
  const timer = setInterval(() => {
    const now = readLoop()
    const { active, utilization } = performance.eventLoopUtilization(now.utilization, before.utilization)
    const turnMs = active / Math.max(1, now.turns - before.turns)
    note({ turnMs, utilization, heap: readHeap() / heapLimitBytes })
    before = now
  }, PERIOD_MS).unref()
  return () => clearInterval(timer)
}

/** Bytes of what lives long: the young come and go, and have a limit of their own. */
function readHeap(): number {
  let bytes = 0
  for (const { space_name: name, space_used_size: used } of getHeapSpaceStatistics()) {
    if (!name.startsWith('new_')) bytes += used
  }
  return bytes
}

interface Loop {
  readonly turns: number
  readonly utilization: EventLoopUtilization
}

function readLoop(): Loop {
  return {
    turns: performance.nodeTiming.uvMetricsInfo.loopCount,
    utilization: performance.eventLoopUtilization(),
  }
}
