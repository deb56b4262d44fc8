import type { KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { atMost } from '../../domain/bounded.ts'
import type { Clock } from '../../domain/clock.ts'
import {
  type ChangeMessage,
  decodeMessage,
  type HeartbeatMessage,
  type ReceivedMessage,
} from '../../domain/invalidation-message.ts'
import { TokenBucket } from '../../domain/rate-limit.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'
import {
  type CounterHandle,
  type HistogramHandle,
  handlesBy,
  INVALIDATION_RESULTS,
  type Metrics,
} from '../../observability/metrics/metrics.ts'
import type { EvictionResult } from '../tiers/memory-store.ts'
import type { KnownVersion } from '../tiers/trust.ts'
import { HeartbeatSenders } from './heartbeat-senders.ts'

/** How often unverified or repeated messages may cause a lookup, for all keys together. */
const RECHECKS = { perSecond: 10, burst: 20 }
/** Keys whose newest announced version is stored; beyond that, the least recently used is dropped. */
const MAX_ANNOUNCED = 100_000
/** For this long after the key service said what time it is, clocks do not drift apart by much. */
const CLOCK_KNOWN_MS = 600_000

/** Evicts records older than this version. */
type OnChange = (digest: string, version: number) => EvictionResult

/** Looks a key up again if memory holds it. Memory stays trusted until the result arrives. */
type OnRecheck = (digest: string) => void

/** Called when a change was applied. */
type OnApplied = (digest: string, version: number) => void

/**
 * Receives messages from Redis or, in the demo, from the console in the same process.
 *
 * An *epoch* is a period in which no change can have been missed: memory does not trust records verified in another one.
 * `isConnected` decides at the time of use, so that a process that was frozen is disconnected as soon as it resumes.
 *
 * Every client with publish rights in Redis can send messages. A message without a valid MAC, one for another region, or a copy of an
 * earlier one only makes the gateway look a key up again, at a bounded rate.
 */
export class InvalidationListener {
  readonly #clock: Clock
  readonly #metrics: Metrics
  readonly #counts: Readonly<Record<(typeof INVALIDATION_RESULTS)[number], CounterHandle>>
  readonly #lag: HistogramHandle
  readonly #needsHeartbeats: boolean
  readonly #region: string
  readonly #messageKeys: () => readonly KeyObject[] | null
  readonly #announced: LRUCache<string, KnownVersion>
  readonly #senders = new HeartbeatSenders()
  readonly #rechecks = new TokenBucket(RECHECKS)
  #onChange: OnChange = () => 'unknown_key'
  #onRecheck: OnRecheck = () => {}
  #onApplied: OnApplied = () => {}
  #epoch = 0
  #subscribed = false
  #wasConnected = false
  #lastHeartbeatMs = Number.NEGATIVE_INFINITY
  /** The wall clock of the key service minus the monotonic clock here, and when it was learned. */
  #keyServiceClock = { aheadMs: 0, learnedAtMs: Number.NEGATIVE_INFINITY }

  /**
   * @param deps.needsHeartbeats false for a key service that sends none: then a subscription counts as connected
   * @param deps.region of this gateway: messages for another one are not verified
   * @param deps.messageKeys one of them must have made a message's MAC; null if no signing secret is set
   */
  constructor(deps: {
    clock: Clock
    metrics: Metrics
    needsHeartbeats: boolean
    region?: string | undefined
    messageKeys: () => readonly KeyObject[] | null
    maxAnnounced?: number
  }) {
    this.#clock = deps.clock
    this.#metrics = deps.metrics
    this.#counts = handlesBy(INVALIDATION_RESULTS, result => deps.metrics.invalidations.handle({ result }))
    this.#lag = deps.metrics.invalidationLag.handle({})
    this.#needsHeartbeats = deps.needsHeartbeats
    this.#region = deps.region ?? DEFAULT_REGION
    this.#messageKeys = deps.messageKeys
    this.#announced = new LRUCache(atMost(deps.maxAnnounced ?? MAX_ANNOUNCED))
    this.#metrics.invalidationConnected.set(0)
  }

  /** The epoch as of the last call of `isConnected`, which may begin a new one. */
  get epoch(): number {
    return this.#epoch
  }

  /**
   * Whether the gateway is connected. Each change of this state begins a new epoch.
   * @param nowMs monotonic
   */
  isConnected(nowMs: number = this.#clock.monotonicMs()): boolean {
    const isAlive =
      !this.#needsHeartbeats || nowMs - this.#lastHeartbeatMs <= REVOCATION_TIMING.disconnectedAfterMs
    const connected = this.#subscribed && isAlive
    if (connected !== this.#wasConnected) {
      this.#wasConnected = connected
      this.#epoch++
      this.#metrics.invalidationConnected.set(connected ? 1 : 0)
    }
    return connected
  }

  /** The newest announced version of the key's record, or null. */
  announcedVersion(digest: string): KnownVersion | null {
    return this.#announced.get(digest) ?? null
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

  /** @param wallMs the time that the key service stated in a response that has just arrived */
  learnClock(wallMs: number): void {
    const learnedAtMs = this.#clock.monotonicMs()
    this.#keyServiceClock = { aheadMs: wallMs - learnedAtMs, learnedAtMs }
  }

  /** From now on every message is delivered. Earlier messages may have been missed. */
  subscribed(): void {
    this.lost()
    this.#subscribed = true
    this.#epoch++
    this.isConnected()
  }

  lost(): void {
    this.#subscribed = false
    this.#lastHeartbeatMs = Number.NEGATIVE_INFINITY
    this.isConnected()
  }

  /** @param text a raw message from the channel */
  receive(text: string): void {
    const nowMs = this.#clock.monotonicMs()
    this.isConnected(nowMs) // If this message ends a silence, the silence itself has begun a new epoch.
    const message = decodeMessage(text, this.#messageKeys(), this.#region)
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
    // Compares monotonic clocks, so that a wall clock that is set, on either side, does not look like a delay.
    const sentMs = monotonicMs ?? atMs
    const delayMs = monotonicMs === null ? ageMs : nowMs - monotonicMs
    const { aheadMs, learnedAtMs } = this.#keyServiceClock
    const trueAgeMs = nowMs - learnedAtMs > CLOCK_KNOWN_MS ? null : nowMs + aheadMs - atMs
    if (!this.#senders.accepts({ sender, sentMs, delayMs, ageMs, trueAgeMs }, nowMs)) return
    this.#lastHeartbeatMs = nowMs
    this.isConnected(nowMs)
  }

  #receiveChange({ digest, version, atMs }: ChangeMessage, nowMs: number): void {
    const known = this.#announced.get(digest)
    if (known !== undefined && version <= known.version) {
      this.#receiveRepeated(digest, version, nowMs)
      return
    }
    this.#announced.set(digest, { version, knownAtMs: nowMs })
    this.#counts[this.#onChange(digest, version)].inc()
    this.#onApplied(digest, version)
    // While disconnected the gateway verifies records at the key service, so the change took effect earlier.
    if (!this.#wasConnected) return
    this.#lag.observe(Math.max(0, this.#clock.wallMs() - atMs) / 1000)
  }

  /** The console repeats a change that may not have been published, and expects a confirmation. An attacker may replay it. */
  #receiveRepeated(digest: string, version: number, nowMs: number): void {
    this.#counts.repeated.inc()
    if (!this.#rechecks.take(nowMs)) return
    this.#onRecheck(digest)
    this.#onApplied(digest, version)
  }
}
