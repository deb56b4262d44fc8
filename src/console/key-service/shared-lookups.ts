/** Digests of one query: bounds its time. */
const MAX_DIGESTS = 1_000
/** Of the few connections for reading: the others are left to heartbeats and pages. */
const MAX_QUERIES = 2

interface WaitingLookup<Result> {
  /** How many requests wait for it. */
  callers: number
  readonly outcome: PromiseWithResolvers<Result>
}

/**
 * Looks up a key once for all requests that wait for it: after Redis has lost its records, each gateway asks for the same
 * keys. A request shares only a query that has not begun, since an older one may not see a change that its gateway knows.
 */
export class SharedLookups<Result> {
  readonly #query: (digests: readonly string[]) => Promise<(digest: string) => Result>
  readonly #waiting = new Map<string, WaitingLookup<Result>>()
  #queries = 0

  /** @param query looks up different digests @returns the result of each */
  constructor(query: (digests: readonly string[]) => Promise<(digest: string) => Result>) {
    this.#query = query
  }

  /**
   * @param digests each once
   * @param abandoned aborted once the caller has given up; keys that no other request waits for are skipped
   * @returns their results, in the same order; null once abandoned
   */
  find(digests: readonly string[], abandoned: AbortSignal): Promise<Result[] | null> {
    if (abandoned.aborted) return Promise.resolve(null)
    const joined = digests.map(digest => [digest, this.#join(digest)] as const)
    const { promise, resolve, reject } = Promise.withResolvers<Result[] | null>()
    const leave = () => {
      for (const [digest, lookup] of joined) this.#leave(digest, lookup)
      resolve(null)
    }
    abandoned.addEventListener('abort', leave, { once: true })
    Promise.all(joined.map(([, { outcome }]) => outcome.promise)).then(resolve, reject)
    this.#begin()
    return promise.finally(() => abandoned.removeEventListener('abort', leave))
  }

  #join(digest: string): WaitingLookup<Result> {
    const waiting = this.#waiting.get(digest)
    if (waiting !== undefined) {
      waiting.callers++
      return waiting
    }
    const lookup = { callers: 1, outcome: Promise.withResolvers<Result>() }
    this.#waiting.set(digest, lookup)
    return lookup
  }

  #leave(digest: string, lookup: WaitingLookup<Result>): void {
    lookup.callers--
    if (lookup.callers === 0 && this.#waiting.get(digest) === lookup) this.#waiting.delete(digest)
  }

  #begin(): void {
    while (this.#queries < MAX_QUERIES && this.#waiting.size > 0) {
      this.#queries++
      void this.#run(this.#take()).finally(() => {
        this.#queries--
        this.#begin()
      })
    }
  }

  /** Removes the newest ones: where not all can be answered in time, gateways are about to give up the oldest. */
  #take(): [string, WaitingLookup<Result>][] {
    const lookups = [...this.#waiting].slice(-MAX_DIGESTS)
    for (const [digest] of lookups) this.#waiting.delete(digest)
    return lookups
  }

  /** Never rejects. */
  async #run(lookups: readonly (readonly [string, WaitingLookup<Result>])[]): Promise<void> {
    try {
      const findResult = await this.#query(lookups.map(([digest]) => digest))
      for (const [digest, { outcome }] of lookups) outcome.resolve(findResult(digest))
    } catch (error) {
      for (const [, { outcome }] of lookups) outcome.reject(error)
    }
  }
}
