import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'

/** The fastest heartbeat stays the baseline for this long at least, and twice as long at most. */
const BASELINE_MS = 300_000
/**
 * The heartbeats of an unknown sender may be a replay. By the clock of the key service, which consoles share to within less than a
 * second, none older than this is accepted until a fresh one has arrived.
 */
const MAX_FIRST_AGE_MS = 2_000
/** The same by the gateway's own clock, which may be wrong, for a key service that does not say what time it is. */
const MAX_FIRST_AGE_BY_OWN_CLOCK_MS = 7_200_000
/** Each console process is a sender. Beyond this number, the one that was silent longest is dropped. */
const MAX_SENDERS = 64

export interface Heartbeat {
  readonly sender: string
  /** When it was sent, by a clock of the sender, ms. */
  readonly sentMs: number
  /** Time of receipt by the same kind of clock here, minus `sentMs`: the transit time plus an unknown constant, ms. */
  readonly delayMs: number
  /** The gateway's wall clock on receipt minus the sender's wall clock on sending, ms. */
  readonly ageMs: number
  /** The same by the clock of the key service; null if that is not known. */
  readonly trueAgeMs: number | null
}

/**
 * Decides which heartbeats count. Two clocks cannot be compared, but the growth of their difference can: the fastest
 * heartbeat of the last minutes is the baseline of its sender. It survives a new subscription, because that does not make a
 * slow channel fast, and expires after some minutes, because clocks drift. A channel that is slow from the first heartbeat
 * on looks like a clock that is behind; `postern_key_invalidation_lag_seconds` shows it.
 */
export class HeartbeatSenders {
  /** By sender, in the order of their last heartbeats. */
  readonly #baselines = new Map<string, Baseline>()

  /** @param nowMs monotonic. @returns whether the heartbeat is new, and not late */
  accepts({ sender, sentMs, delayMs, ageMs, trueAgeMs }: Heartbeat, nowMs: number): boolean {
    const known = this.#baselines.get(sender)
    if (trueAgeMs === null) {
      if (known === undefined && ageMs > MAX_FIRST_AGE_BY_OWN_CLOCK_MS) return false
    } else if (known?.wasFresh !== true && trueAgeMs > MAX_FIRST_AGE_MS) return false
    // A copy of an earlier heartbeat.
    if (known !== undefined && sentMs <= known.lastSentMs) return false
    const baseline = known ?? new Baseline()
    this.#remember(sender, baseline)
    baseline.lastSentMs = sentMs
    baseline.wasFresh ||= trueAgeMs !== null
    return baseline.measureLateness(delayMs, nowMs) <= REVOCATION_TIMING.lateAfterMs
  }

  #remember(sender: string, baseline: Baseline): void {
    this.#baselines.delete(sender)
    this.#baselines.set(sender, baseline)
    const [oldest] = this.#baselines.keys()
    if (this.#baselines.size > MAX_SENDERS && oldest !== undefined) this.#baselines.delete(oldest)
  }
}

class Baseline {
  lastSentMs = Number.NEGATIVE_INFINITY
  /** Whether one was shown to be no replay by the clock of the key service: later steps of wall clocks do not matter. */
  wasFresh = false
  #leastDelayMs = Number.POSITIVE_INFINITY
  #leastBeforeMs = Number.POSITIVE_INFINITY
  #sinceMs = Number.NEGATIVE_INFINITY

  measureLateness(delayMs: number, nowMs: number): number {
    if (nowMs - this.#sinceMs > BASELINE_MS) {
      this.#leastBeforeMs = this.#leastDelayMs
      this.#leastDelayMs = Number.POSITIVE_INFINITY
      this.#sinceMs = nowMs
    }
    this.#leastDelayMs = Math.min(this.#leastDelayMs, delayMs)
    return delayMs - Math.min(this.#leastDelayMs, this.#leastBeforeMs)
  }
}
