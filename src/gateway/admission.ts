import { type EventLoopUtilization, performance } from 'node:perf_hooks'
import { getHeapSpaceStatistics } from 'node:v8'
import type { Config } from '../config/schema/schema.ts'

const PERIOD_MS = 100
/** A rejection under overload is delayed by 2 to 3 periods. */
const DELAY_PERIODS = 3
const MAX_DELAYED = 1000
/** Utilization above which clients that retry at once after a rejection slow down other requests. */
const BUSY_UTILIZATION = 0.9

interface AdmissionSettings extends Pick<Config['gateway'], 'maxLoopDelayMs' | 'maxHeapPercent'> {
  readonly maxInFlight: number
  /** The limit never falls below this, except if the heap is full. */
  readonly minInFlight: number
}

/** How busy the process was in one period. */
export interface Load {
  /** Mean working time of a turn of the event loop. Each request waits for several turns. */
  readonly turnMs: number
  /** Part of the period in which the event loop worked, 0 to 1. */
  readonly utilization: number
  /** Part of the heap limit that long-lived objects use, 0 to 1. */
  readonly heap: number
}

/**
 * Decides whether a further request may be in flight, by the length of event loop turns, for which requests wait.
 * (@fastify/under-pressure compares the mean delay of a timer with a threshold, admits all or none for the next second,
 * and responds in its own hook.)
 */
export class Admission {
  readonly #settings: AdmissionSettings
  readonly #inFlight: () => number
  readonly #limit: InFlightLimit
  #heapIsFull = false
  #isBusy = false
  #stopped = false
  #delayed = 0
  #releases: (() => void)[][] = Array.from({ length: DELAY_PERIODS }, () => [])

  /** @param inFlight returns the number of open requests, with the current one and without rejected ones */
  constructor(settings: AdmissionSettings, inFlight: () => number) {
    this.#settings = settings
    this.#inFlight = inFlight
    this.#limit = new InFlightLimit({ max: settings.maxInFlight, min: settings.minInFlight })
  }

  /** With the heap nearly full, one request at a time is admitted, to notice when there is room again. */
  get limit(): number {
    return this.#heapIsFull ? 1 : this.#limit.value
  }

  /** Whether there may be room for a request whose workspace is not known yet. */
  admits(): boolean {
    return this.#inFlight() <= this.limit + this.#reserve
  }

  /**
   * Whether there is room for a request of this workspace. One workspace may use the whole limit. A reserve of a quarter
   * more is for workspaces that use at most that much, so that no workspace can exclude the others.
   * @param ofWorkspace requests of the workspace that are in flight, with the current one
   */
  admitsWorkspace(ofWorkspace: number): boolean {
    return this.#inFlight() <= this.limit || ofWorkspace <= this.#reserve
  }

  get #reserve(): number {
    return Math.floor(this.limit / 4)
  }

  /**
   * Delays a rejection while the process is late or busy. Otherwise clients that ignore `Retry-After` would retry at
   * once, and rejecting them would starve other requests.
   */
  async delayRejection(): Promise<void> {
    const isLate = this.#limit.value < this.#settings.maxInFlight
    const delays = (isLate || this.#isBusy) && !this.#heapIsFull
    if (!delays || this.#stopped || this.#delayed >= MAX_DELAYED) return
    this.#delayed++
    await new Promise<void>(resolve => this.#releases.at(-1)?.push(resolve))
  }

  /** Adjusts the limit to the load of the last period. Call it once per period. */
  recordLoad({ turnMs, utilization, heap }: Load): void {
    this.#isBusy = utilization > BUSY_UTILIZATION
    this.#heapIsFull = heap * 100 >= this.#settings.maxHeapPercent
    this.#limit.adjust(turnMs > this.#settings.maxLoopDelayMs, this.#inFlight())
    this.#release(this.#releases.shift() ?? [])
    this.#releases.push([])
  }

  /** Releases all delayed rejections and delays no more. */
  stop(): void {
    this.#stopped = true
    for (const releases of this.#releases) this.#release(releases.splice(0))
  }

  #release(releases: readonly (() => void)[]): void {
    this.#delayed -= releases.length
    for (const release of releases) release()
  }
}

/**
 * Measures the load once per period, with a timer that does not keep the process alive.
 * @param heapLimitBytes limit of the long-lived objects
 * @returns a function that stops measuring
 */
export function watchLoad(heapLimitBytes: number, record: (load: Load) => void): () => void {
  let before = readLoop()
  const timer = setInterval(() => {
    const now = readLoop()
    const { active, utilization } = performance.eventLoopUtilization(now.utilization, before.utilization)
    const turnMs = active / Math.max(1, now.turns - before.turns)
    record({ turnMs, utilization, heap: readHeap() / heapLimitBytes })
    before = now
  }, PERIOD_MS).unref()
  return () => clearInterval(timer)
}

/** @returns bytes of long-lived objects; young objects have their own limit */
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

interface InFlightBounds {
  /** The limit while the process is not overloaded. */
  readonly max: number
  /** The limit however late the process is; at most `max`. */
  readonly min: number
}

const SHRINK = 0.75
const GROWTH = 1 / 16

/**
 * How many requests may be in flight. While the event loop is late, the limit falls to three quarters of the current
 * number; otherwise it grows slowly. An on-off switch would alternate between shedding all requests and none.
 */
export class InFlightLimit {
  readonly #bounds: InFlightBounds
  #limit: number

  constructor(bounds: InFlightBounds) {
    this.#bounds = bounds
    this.#limit = bounds.max
  }

  get value(): number {
    return this.#limit
  }

  /** Call once per measuring period. @param inFlight requests in flight at the end of the period */
  adjust(isLate: boolean, inFlight: number): void {
    const { max, min } = this.#bounds
    this.#limit = isLate
      ? Math.max(min, Math.floor(Math.min(this.#limit, inFlight) * SHRINK))
      : Math.min(max, this.#limit + Math.ceil(this.#limit * GROWTH))
  }
}
