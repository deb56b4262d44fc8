/** How long the quickest beat is the measure: at least once this, at most twice. */
const REMEMBERED_MS = 300_000

/**
 * How late a beat is. Two clocks cannot be compared, their difference over time can: the quickest beat of the last
 * minutes is the measure. It outlives subscriptions, because a channel that is late does not become punctual by being
 * subscribed to again; and it is forgotten, because clocks drift, and are set. Until then a gateway whose clock was set
 * forward takes itself for deaf, which is safe. A channel that was late from the first beat on cannot be told from a
 * clock that is behind: that shows in `postern_key_invalidation_lag_seconds`.
 */
export class QuickestBeat {
  #leastDelayMs = Number.POSITIVE_INFINITY
  #leastBeforeMs = Number.POSITIVE_INFINITY
  #sinceMs = Number.NEGATIVE_INFINITY

  /**
   * @param delayMs from the sender's clock to ours
   * @param nowMs monotonic
   */
  latenessOf(delayMs: number, nowMs: number): number {
    if (nowMs - this.#sinceMs > REMEMBERED_MS) {
      this.#leastBeforeMs = this.#leastDelayMs
      this.#leastDelayMs = Number.POSITIVE_INFINITY
      this.#sinceMs = nowMs
    }
    this.#leastDelayMs = Math.min(this.#leastDelayMs, delayMs)
    return delayMs - Math.min(this.#leastDelayMs, this.#leastBeforeMs)
  }
}
