import { LRUCache } from 'lru-cache'
import type { Clock } from '../domain/clock.ts'
import { type Announcement, decodeAnnouncement } from '../domain/wire.ts'
import type { Metrics } from '../observability/metrics.ts'

/** Without a beat for longer than this, memory proves nothing. */
const DEAF_AFTER_MS = 1_000
/** A beat that took this much longer than the quickest one tells of the past: what came after it is still on its way. */
const LATE_AFTER_MS = 1_000
const REMEMBERED_VERSIONS = 100_000

/** What a source of announcements tells: Redis, or in the demo the console of the same process. */
export interface ChangeEar {
  /** From now on every announcement is heard. Not before: what was announced until now may have been missed. */
  subscribed(): void
  lost(): void
  /** @param text a message as it came from the channel */
  hear(text: string): void
}

/** @returns whether anything was held of the key */
export type OnChange = (digest: string) => boolean

/**
 * The gateway's hearing. An *epoch* is a time in which no change can have been missed: whatever was learnt in another
 * one is not to be trusted on memory alone. Deafness is judged at the time of use, so that a process that was frozen is
 * deaf at once on waking.
 */
export class Changes implements ChangeEar {
  readonly #clock: Clock
  readonly #metrics: Metrics
  readonly #beats: boolean
  readonly #versions = new LRUCache<string, number>({ max: REMEMBERED_VERSIONS })
  readonly #onChange: OnChange[] = []
  #epoch = 0
  #subscribed = false
  #hearing = false
  #lastBeatMs = Number.NEGATIVE_INFINITY
  #leastDelayMs = Number.POSITIVE_INFINITY

  /** @param deps.beats whether the key service sends beats; if not, being subscribed counts as hearing */
  constructor(deps: { clock: Clock; metrics: Metrics; beats: boolean }) {
    this.#clock = deps.clock
    this.#metrics = deps.metrics
    this.#beats = deps.beats
    this.#metrics.invalidationConnected.set(0)
  }

  /** As of the last judgement; ask `isHearing` first. */
  get epoch(): number {
    return this.#epoch
  }

  /**
   * Going deaf and hearing again each begin a new epoch.
   * @param nowMs monotonic
   */
  isHearing(nowMs: number = this.#clock.monotonicMs()): boolean {
    const hearing = this.#subscribed && (!this.#beats || nowMs - this.#lastBeatMs <= DEAF_AFTER_MS)
    if (hearing !== this.#hearing) {
      this.#hearing = hearing
      this.#epoch++
      this.#metrics.invalidationConnected.set(hearing ? 1 : 0)
    }
    return hearing
  }

  /** Whether a newer version of the record was announced than this one. */
  isOutdated(digest: string, version: number): boolean {
    const announced = this.#versions.get(digest)
    return announced !== undefined && version < announced
  }

  onChange(listener: OnChange): void {
    this.#onChange.push(listener)
  }

  subscribed(): void {
    this.lost()
    this.#subscribed = true
    this.#epoch++
    this.isHearing()
  }

  lost(): void {
    this.#subscribed = false
    this.#lastBeatMs = Number.NEGATIVE_INFINITY
    this.#leastDelayMs = Number.POSITIVE_INFINITY
    this.isHearing()
  }

  hear(text: string): void {
    const nowMs = this.#clock.monotonicMs()
    this.isHearing(nowMs) // A silence that is over now was one all the same.
    const announcement = decodeAnnouncement(text)
    if (announcement === null) this.#hearNoise()
    else if (announcement.kind === 'beat') this.#hearBeat(announcement.atMs, nowMs)
    else this.#hearChange(announcement)
  }

  /** It may have been a change of any key. */
  #hearNoise(): void {
    this.#epoch++
    this.#metrics.invalidations.inc({ result: 'unreadable' })
  }

  /** Two clocks cannot be compared, their difference over time can: delay is measured against the quickest beat. */
  #hearBeat(atMs: number, nowMs: number): void {
    const delayMs = this.#clock.wallMs() - atMs
    this.#leastDelayMs = Math.min(this.#leastDelayMs, delayMs)
    if (delayMs - this.#leastDelayMs > LATE_AFTER_MS) return
    this.#lastBeatMs = nowMs
    this.isHearing(nowMs)
  }

  #hearChange(change: Extract<Announcement, { kind: 'change' }>): void {
    const { digest, version, atMs } = change
    this.#versions.set(digest, Math.max(version, this.#versions.get(digest) ?? 0))
    const held = this.#onChange.map(listener => listener(digest)).includes(true)
    this.#metrics.invalidations.inc({ result: held ? 'evicted' : 'unknown_key' })
    this.#metrics.invalidationLag.observe(Math.max(0, this.#clock.wallMs() - atMs) / 1000)
  }
}
