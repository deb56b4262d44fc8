import type { Clock } from '../domain/clock.ts'
import { type Announcement, decodeAnnouncement } from '../domain/wire.ts'
import {
  childrenBy,
  type Distribution,
  INVALIDATION_RESULTS,
  type Metrics,
  type Tally,
} from '../observability/metrics.ts'
import { NO_ROW, PackedRows } from './packed-rows.ts'
import { QuickestBeat } from './quickest-beat.ts'

/** Without a beat for longer than this, memory proves nothing. */
const DEAF_AFTER_MS = 1_000
/** A beat that took this much longer than the quickest one tells of the past: what came after it is still on its way. */
const LATE_AFTER_MS = 1_000
/** The newest version that was announced of a record, and when it was heard: monotonic, ms. */
const ANNOUNCED_SHAPE = { maxRows: 100_000, numbers: 2, bytes: 0 }
const VERSION = 0
const HEARD_AT = 1

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

/** Called when a change has had its effect on all who listen. */
export type OnApplied = (digest: string, version: number) => void

/**
 * The gateway's hearing. An *epoch* is a time in which no change can have been missed: whatever was learnt in another
 * one is not to be trusted on memory alone. Deafness is judged at the time of use, so that a process that was frozen is
 * deaf at once on waking.
 */
export class Changes implements ChangeEar {
  readonly #clock: Clock
  readonly #metrics: Metrics
  readonly #counts: Readonly<Record<(typeof INVALIDATION_RESULTS)[number], Tally>>
  readonly #lag: Distribution
  readonly #beats: boolean
  readonly #announced = new PackedRows(ANNOUNCED_SHAPE)
  readonly #quickest = new QuickestBeat()
  readonly #onChange: OnChange[] = []
  #onApplied: OnApplied = () => {}
  #epoch = 0
  #subscribed = false
  #hearing = false
  #lastBeatMs = Number.NEGATIVE_INFINITY

  /** @param deps.beats whether the key service sends beats; if not, being subscribed counts as hearing */
  constructor(deps: { clock: Clock; metrics: Metrics; beats: boolean }) {
    this.#clock = deps.clock
    this.#metrics = deps.metrics
    this.#counts = childrenBy(INVALIDATION_RESULTS, result => deps.metrics.invalidations.child({ result }))
    this.#lag = deps.metrics.invalidationLag.child({})
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

  /**
   * The newest version that was announced of a record; 0 where none was.
   * @param heardSinceMs monotonic; what was heard before that does not count
   */
  announcedVersion(digest: string, heardSinceMs = Number.NEGATIVE_INFINITY): number {
    const row = this.#announced.find(digest)
    if (row === NO_ROW) return 0
    this.#announced.touch(row)
    return this.#announced.number(row, HEARD_AT) < heardSinceMs ? 0 : this.#announced.number(row, VERSION)
  }

  onChange(listener: OnChange): void {
    this.#onChange.push(listener)
  }

  onApplied(listener: OnApplied): void {
    this.#onApplied = listener
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
    this.isHearing()
  }

  hear(text: string): void {
    const nowMs = this.#clock.monotonicMs()
    this.isHearing(nowMs) // A silence that is over now was one all the same.
    const announcement = decodeAnnouncement(text)
    if (announcement === null) this.#hearNoise()
    else if (announcement.kind === 'beat') this.#hearBeat(announcement.atMs, nowMs)
    else this.#hearChange(announcement, nowMs)
  }

  /** It may have been a change of any key. */
  #hearNoise(): void {
    this.#epoch++
    this.#counts.unreadable.inc()
  }

  #hearBeat(atMs: number, nowMs: number): void {
    const delayMs = this.#clock.wallMs() - atMs
    this.#metrics.clockSkew.set(delayMs / 1000)
    if (this.#quickest.latenessOf(delayMs, nowMs) > LATE_AFTER_MS) return
    this.#lastBeatMs = nowMs
    this.isHearing(nowMs)
  }

  #hearChange({ digest, version, atMs }: Extract<Announcement, { kind: 'change' }>, nowMs: number): void {
    this.#note(digest, version, nowMs)
    const held = this.#onChange.map(listener => listener(digest)).includes(true)
    this.#counts[held ? 'evicted' : 'unknown_key'].inc()
    this.#onApplied(digest, version)
    // What is heard while deaf had its effect before: records are verified at the origin then.
    if (!this.#hearing) return
    this.#lag.observe(Math.max(0, this.#clock.wallMs() - atMs) / 1000)
  }

  #note(digest: string, version: number, nowMs: number): void {
    const announced = this.#announced
    const known = announced.find(digest)
    if (known !== NO_ROW) announced.touch(known)
    if (known !== NO_ROW && version <= announced.number(known, VERSION)) return
    const row = known === NO_ROW ? announced.claim(digest) : known
    announced.setNumber(row, VERSION, version)
    announced.setNumber(row, HEARD_AT, nowMs)
  }
}
