import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'

/** How long the fastest heartbeat is the baseline: at least once this, at most twice. */
const BASELINE_MS = 300_000
/** The first heartbeat of an unknown sender may be a recording. It is refused if it claims to be older than this. */
const MAX_FIRST_AGE_MS = 7_200_000
/** Each console process is a sender. Beyond this number the one that was silent longest is forgotten. */
const MAX_SENDERS = 64

export interface Heartbeat {
  readonly sender: string
  /** By a clock of the sender, ms. */
  readonly sentMs: number
  /** From that clock to the same kind of clock here, ms: the transit time plus an unknown constant. */
  readonly delayMs: number
  /** By how much the sender's wall clock reads less than ours, ms. */
  readonly ageMs: number
}

/**
 * Which heartbeats count. Two clocks cannot be compared, but how their difference grows can: the fastest heartbeat of the
 * last minutes is the baseline, kept for each sender. It outlives subscriptions, because subscribing again does not make a
 * slow channel fast. It is forgotten after some minutes, because clocks drift. A channel that was slow from a sender's first
 * heartbeat on looks like a clock that is behind; it shows in `postern_key_invalidation_lag_seconds`.
 */
export class HeartbeatSenders {
  /** In the order in which they were last received from. */
  readonly #baselines = new Map<string, Baseline>()

  /** @param nowMs monotonic. @returns whether the heartbeat is new, and not late */
  accepts({ sender, sentMs, delayMs, ageMs }: Heartbeat, nowMs: number): boolean {
    const known = this.#baselines.get(sender)
    if (known === undefined && ageMs > MAX_FIRST_AGE_MS) return false
    // A copy of an earlier heartbeat.
    if (known !== undefined && sentMs <= known.lastSentMs) return false
    const baseline = known ?? new Baseline()
    this.#remember(sender, baseline)
    baseline.lastSentMs = sentMs
    return baseline.latenessOf(delayMs, nowMs) <= REVOCATION_TIMING.lateAfterMs
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
  #leastDelayMs = Number.POSITIVE_INFINITY
  #leastBeforeMs = Number.POSITIVE_INFINITY
  #sinceMs = Number.NEGATIVE_INFINITY

  latenessOf(delayMs: number, nowMs: number): number {
    if (nowMs - this.#sinceMs > BASELINE_MS) {
      this.#leastBeforeMs = this.#leastDelayMs
      this.#leastDelayMs = Number.POSITIVE_INFINITY
      this.#sinceMs = nowMs
    }
    this.#leastDelayMs = Math.min(this.#leastDelayMs, delayMs)
    return delayMs - Math.min(this.#leastDelayMs, this.#leastBeforeMs)
  }
}
