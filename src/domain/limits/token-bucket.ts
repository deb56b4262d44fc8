/** Allows `perSecond` actions a second on average, and up to `burst` at once. */
export class TokenBucket {
  readonly #perSecond: number
  readonly #burst: number
  #tokens: number
  #filledAtMs = Number.NEGATIVE_INFINITY

  constructor({ perSecond, burst }: { perSecond: number; burst: number }) {
    this.#perSecond = perSecond
    this.#burst = burst
    this.#tokens = burst
  }

  /** @param nowMs monotonic. @returns whether the action is allowed */
  take(nowMs: number): boolean {
    const gained = ((nowMs - this.#filledAtMs) / 1000) * this.#perSecond
    this.#tokens = Math.min(this.#burst, this.#tokens + gained)
    this.#filledAtMs = nowMs
    if (this.#tokens < 1) return false
    this.#tokens--
    return true
  }

  /** Undoes one `take`. */
  putBack(): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + 1)
  }
}
