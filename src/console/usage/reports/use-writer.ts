import { LRUCache } from 'lru-cache'
import { atMost } from '../../../domain/bounded.ts'
import type { Clock, Timers } from '../../../domain/clock.ts'
import { type ControlLogger, describeError } from '../../../observability/control-logger.ts'

/** A key in constant use is written this often. Gateways report every 10 s: what one of them reports is written at once. */
const WRITE_EVERY_MS = 5_000
/** Uses written in one transaction, so that changes to keys can go in between. */
const USES_AT_ONCE = 500
/** Keys whose last write is remembered, and at most as many that wait for their next one. */
const MAX_KEYS = 100_000

export interface UseWriterParts {
  readonly repository: {
    /** Moves each time forward only. */
    recordUse(lastUsedMs: ReadonlyMap<string, number>): Promise<void>
  }
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
}

/**
 * Records when keys were last used, to the second. The first use is written at once; of a key that a thousand gateways
 * report, one in five seconds, and the last one. A console that is killed may lose the last five seconds of it.
 */
export class UseWriter {
  readonly #parts: UseWriterParts
  /** When each key was last written. */
  readonly #writtenMs = new LRUCache<string, number>(atMost(MAX_KEYS))
  readonly #waiting = new Map<string, number>()
  #cancel: (() => void) | null = null

  constructor(parts: UseWriterParts) {
    this.#parts = parts
  }

  /** @param uses when each key was last used */
  async record(uses: ReadonlyMap<string, number>): Promise<void> {
    const nowMs = this.#parts.clock.wallMs()
    const due = new Map<string, number>()
    for (const [keyId, ms] of uses) {
      const latest = Math.max(ms, this.#waiting.get(keyId) ?? 0)
      const isRecent = nowMs - (this.#writtenMs.get(keyId) ?? 0) < WRITE_EVERY_MS
      if (isRecent && this.#waiting.size < MAX_KEYS) this.#waiting.set(keyId, latest)
      else due.set(keyId, latest)
    }
    await this.#write(due, nowMs)
    if (this.#waiting.size > 0)
      this.#cancel ??= this.#parts.timers.after(WRITE_EVERY_MS, () => void this.#flush())
  }

  /** Writes what waits. */
  async stop(): Promise<void> {
    this.#cancel?.()
    await this.#flush()
  }

  /** What cannot be written waits for the next time. */
  async #flush(): Promise<void> {
    this.#cancel = null
    try {
      await this.#write(new Map(this.#waiting), this.#parts.clock.wallMs())
    } catch (error) {
      this.#parts.logger.warn({ cause: describeError(error) }, 'last uses of keys not written, retrying')
    }
  }

  async #write(uses: ReadonlyMap<string, number>, nowMs: number): Promise<void> {
    const all = [...uses]
    for (let from = 0; from < all.length; from += USES_AT_ONCE) {
      const part = all.slice(from, from + USES_AT_ONCE)
      await this.#parts.repository.recordUse(new Map(part))
      for (const [keyId, ms] of part) {
        this.#writtenMs.set(keyId, nowMs)
        if ((this.#waiting.get(keyId) ?? 0) <= ms) this.#waiting.delete(keyId)
      }
    }
  }
}
