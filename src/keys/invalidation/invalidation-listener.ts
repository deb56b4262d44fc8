import type { KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../domain/clock.ts'
import {
  type ChangeMessage,
  decodeMessage,
  type HeartbeatMessage,
  type ReceivedMessage,
} from '../../domain/invalidation-message.ts'
import { TokenBucket } from '../../domain/token-bucket.ts'
import {
  type CounterHandle,
  type HistogramHandle,
  handlesBy,
  INVALIDATION_RESULTS,
  type Metrics,
} from '../../observability/metrics.ts'
import type { EvictionResult } from '../tiers/memory/memory-store.ts'
import { HeartbeatSenders } from './heartbeat-senders.ts'

/** After this time without a heartbeat the gateway is disconnected: memory proves nothing. */
const DISCONNECTED_AFTER_MS = 1_000
/** How often, over all keys, a message that proves nothing may make the gateway look a key up again. */
const RECHECKS = { perSecond: 10, burst: 20 }
/** Keys of which the newest announced version is known: beyond that, the one asked for longest ago is forgotten. */
const MAX_ANNOUNCED = 100_000

interface Announced {
  readonly version: number
  /** Monotonic, ms. */
  readonly receivedAtMs: number
}

/** What delivers messages calls this: Redis, or in the demo the console of the same process. */
export interface ChangeEar {
  /** From now on every message is delivered. What was published until now may have been missed. */
  subscribed(): void
  lost(): void
  /** @param text a message as it came from the channel */
  hear(text: string): void
}

/** Forgets what is older than that version. */
export type OnChange = (digest: string, version: number) => EvictionResult

/** Looks a key up again where it is held, and goes on trusting what is held until the answer comes. */
export type OnRecheck = (digest: string) => void

/** Called when a change has had its effect. */
export type OnApplied = (digest: string, version: number) => void

/**
 * The invalidation listener. An *epoch* is a time in which no change can have been missed: what was learnt in another one
 * is not trusted on memory alone. Whether the gateway is connected is judged at the time of use, so that a process that was
 * frozen is disconnected at once on waking.
 *
 * Anyone who may publish in Redis can send messages. Without a good MAC a message does nothing but have a key looked up
 * again, at a bounded rate; so does the copy of an earlier message.
 */
export class Changes implements ChangeEar {
  readonly #clock: Clock
  readonly #metrics: Metrics
  readonly #counts: Readonly<Record<(typeof INVALIDATION_RESULTS)[number], CounterHandle>>
  readonly #lag: HistogramHandle
  readonly #needsHeartbeats: boolean
  readonly #messageKeys: () => readonly KeyObject[] | null
  readonly #announced = new LRUCache<string, Announced>({ max: MAX_ANNOUNCED })
  readonly #senders = new HeartbeatSenders()
  readonly #rechecks = new TokenBucket(RECHECKS)
  #onChange: OnChange = () => 'unknown_key'
  #onRecheck: OnRecheck = () => {}
  #onApplied: OnApplied = () => {}
  #epoch = 0
  #subscribed = false
  #connected = false
  #lastHeartbeatMs = Number.NEGATIVE_INFINITY

  /**
   * @param deps.beats whether the key service sends heartbeats; if not, a subscription counts as connected
   * @param deps.messageKeys keys of which one must have made a message's MAC; null where no signing secret is set
   */
  constructor(deps: {
    clock: Clock
    metrics: Metrics
    beats: boolean
    messageKeys: () => readonly KeyObject[] | null
  }) {
    this.#clock = deps.clock
    this.#metrics = deps.metrics
    this.#counts = handlesBy(INVALIDATION_RESULTS, result => deps.metrics.invalidations.handle({ result }))
    this.#lag = deps.metrics.invalidationLag.handle({})
    this.#needsHeartbeats = deps.beats
    this.#messageKeys = deps.messageKeys
    this.#metrics.invalidationConnected.set(0)
  }

  /** As of the last judgement; ask `isHearing` first. */
  get epoch(): number {
    return this.#epoch
  }

  /**
   * Whether the gateway is connected. A change of that, either way, begins a new epoch.
   * @param nowMs monotonic
   */
  isHearing(nowMs: number = this.#clock.monotonicMs()): boolean {
    const isAlive = !this.#needsHeartbeats || nowMs - this.#lastHeartbeatMs <= DISCONNECTED_AFTER_MS
    const connected = this.#subscribed && isAlive
    if (connected !== this.#connected) {
      this.#connected = connected
      this.#epoch++
      this.#metrics.invalidationConnected.set(connected ? 1 : 0)
    }
    return connected
  }

  /**
   * The newest version that was announced of a record; 0 where none was.
   * @param heardSinceMs monotonic; what was announced before that does not count
   */
  announcedVersion(digest: string, heardSinceMs = Number.NEGATIVE_INFINITY): number {
    const announced = this.#announced.get(digest)
    return announced === undefined || announced.receivedAtMs < heardSinceMs ? 0 : announced.version
  }

  onChange(listener: OnChange): void {
    this.#onChange = listener
  }

  onRecheck(listener: OnRecheck): void {
    this.#onRecheck = listener
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
    this.#lastHeartbeatMs = Number.NEGATIVE_INFINITY
    this.isHearing()
  }

  hear(text: string): void {
    const nowMs = this.#clock.monotonicMs()
    this.isHearing(nowMs) // A silence that is over now was one all the same.
    const message = decodeMessage(text, this.#messageKeys())
    if (message === null) this.#counts.unreadable.inc()
    else if (!message.verified) this.#receiveUnverified(message, nowMs)
    else if (message.kind === 'heartbeat') this.#receiveHeartbeat(message, nowMs)
    else this.#receiveChange(message, nowMs)
  }

  #receiveUnverified(message: ReceivedMessage, nowMs: number): void {
    this.#counts.unverified.inc()
    if (message.kind === 'change' && this.#rechecks.take(nowMs)) this.#onRecheck(message.digest)
  }

  #receiveHeartbeat({ sender, monotonicMs, atMs }: HeartbeatMessage, nowMs: number): void {
    const ageMs = this.#clock.wallMs() - atMs
    this.#metrics.clockSkew.set(ageMs / 1000)
    // Monotonic against monotonic, so that no wall clock that is set, here or there, looks like a delay.
    const sentMs = monotonicMs ?? atMs
    const delayMs = monotonicMs === null ? ageMs : nowMs - monotonicMs
    if (!this.#senders.accepts({ sender, sentMs, delayMs, ageMs }, nowMs)) return
    this.#lastHeartbeatMs = nowMs
    this.isHearing(nowMs)
  }

  #receiveChange({ digest, version, atMs }: ChangeMessage, nowMs: number): void {
    if (!this.#note(digest, version, nowMs)) {
      this.#receiveRepeated(digest, version, nowMs)
      return
    }
    this.#counts[this.#onChange(digest, version)].inc()
    this.#onApplied(digest, version)
    // While disconnected the gateway verifies records at the key service: the change had its effect before.
    if (!this.#connected) return
    this.#lag.observe(Math.max(0, this.#clock.wallMs() - atMs) / 1000)
  }

  /** The console publishes again what it is not sure of, and wants the confirmation; anyone else may replay it. */
  #receiveRepeated(digest: string, version: number, nowMs: number): void {
    this.#counts.repeated.inc()
    if (!this.#rechecks.take(nowMs)) return
    this.#onRecheck(digest)
    this.#onApplied(digest, version)
  }

  /** @returns whether the version is newer than any that was announced */
  #note(digest: string, version: number, nowMs: number): boolean {
    const known = this.#announced.get(digest)
    if (known !== undefined && version <= known.version) return false
    this.#announced.set(digest, { version, receivedAtMs: nowMs })
    return true
  }
}
