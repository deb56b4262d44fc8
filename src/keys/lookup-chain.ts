import type { Clock } from '../domain/clock.ts'
import type { KeyGrant } from '../domain/key-record.ts'
import type { Lookup } from '../domain/lookup.ts'
import { type CounterHandle, handlesBy, LOOKUP_RESULTS, type Metrics } from '../observability/metrics.ts'
import { type Flight, Flights } from './in-flight-lookups.ts'
import type { Changes } from './invalidation/invalidation-listener.ts'
import type { KeyStore, KeyTier } from './key-store.ts'
import type { EvictionResult, MemoryStore, Moment, Verified } from './tiers/memory/memory-store.ts'

const MAX_IN_FLIGHT = 10_000
/** A key that changes more often than this while it is looked up is not known. */
const MAX_TRIES = 3
/** How far the key service may lag behind what it announced itself: it may read from a replica of its database. */
const KEY_SERVICE_LAG_MS = 60_000
/**
 * While deaf and the authority is passed over, what Redis says is trusted for a quarter of a second and not for a whole
 * one: the rest of that second may go by until it is noticed that the authority is back.
 */
const PASSED_OVER_AGE_MS = 750
const UNKNOWN: Lookup = { kind: 'unknown' }

export interface ChainParts {
  readonly memory: MemoryStore
  readonly changes: Changes
  /** The shared cache; null where none is configured. */
  readonly redis: KeyTier | null
  /** The authority; null where none is configured. */
  readonly keyService: KeyTier | null
  readonly clock: Clock
  readonly metrics: Metrics
  /** Time a record outlives its last verification while nobody answers; 0 for none. */
  readonly staleMs: number
  readonly maxInFlight?: number
}

interface Asked {
  readonly answer: Lookup
  /** Whether somebody else answered because the authority is not asked for a while. */
  readonly passedOver: boolean
}

/** Near before far, filling the near; while deaf the authority first. It never throws, and never turns trouble into a "no". */
export class KeyStoreChain implements KeyStore {
  readonly #parts: ChainParts
  readonly #flights: Flights
  readonly #nearFirst: readonly KeyTier[]
  readonly #authorityFirst: readonly KeyTier[]
  readonly #lookups: Readonly<Record<(typeof LOOKUP_RESULTS)[number], CounterHandle>>

  constructor(parts: ChainParts) {
    this.#parts = parts
    this.#flights = new Flights(parts.maxInFlight ?? MAX_IN_FLIGHT)
    this.#nearFirst = [parts.redis, parts.keyService].filter(tier => tier !== null)
    this.#authorityFirst = this.#nearFirst.toReversed()
    this.#lookups = handlesBy(LOOKUP_RESULTS, result =>
      parts.metrics.lookups.handle({ tier: 'memory', result }),
    )
    parts.changes.onChange((digest, version) => this.#forget(digest, version))
    parts.changes.onRecheck(digest => this.#recheck(digest))
  }

  get(digest: string): Lookup | Promise<Lookup> {
    const now = this.#now()
    const held = this.#parts.memory.fresh(digest, now)
    if (held === null) return this.#lookUp(digest, now)
    this.#count(held.kind === 'found' ? 'hit' : 'negative')
    return held
  }

  async #lookUp(digest: string, began: Moment): Promise<Lookup> {
    this.#count(this.#flights.find(digest, began) === null ? 'miss' : 'coalesced')
    let now = began
    for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
      const answer = await this.#board(digest, now)
      if (answer !== null) return answer
      now = this.#now()
      const held = this.#parts.memory.fresh(digest, now)
      if (held !== null) return held
    }
    return UNKNOWN
  }

  /** The flight that is under way, or a new one. */
  #board(digest: string, now: Moment): Promise<Lookup | null> {
    const underway = this.#flights.find(digest, now)
    if (underway !== null) return underway.answer
    if (this.#flights.isFull) return Promise.resolve(UNKNOWN)
    return this.#flights.begin(digest, now, flight => this.#fly(digest, flight)).answer
  }

  /** @returns null where the answer may be of before a change that was heard, or missed, since the flight began */
  async #fly(digest: string, flight: Flight): Promise<Lookup | null> {
    const { answer, passedOver } = await this.#ask(digest, flight.began.hearing)
    const now = this.#now()
    if (flight.superseded) return null
    // The authority needs no channel to be right. What it said in an older epoch is good for those who wait for it, and
    // later only where nobody answers.
    const isAuthority = answer.kind !== 'unknown' && answer.tier === 'key_service'
    if (flight.began.epoch !== now.epoch && !isAuthority) return null
    const { nowMs, epoch } = flight.began
    this.#fill(digest, answer, { verifiedAtMs: passedOver ? nowMs - PASSED_OVER_AGE_MS : nowMs, epoch })
    return answer.kind === 'unknown' ? this.#stale(digest, now) : answer
  }

  async #ask(digest: string, hearing: boolean): Promise<Asked> {
    let passedOver = false
    for (const tier of hearing ? this.#nearFirst : this.#authorityFirst) {
      const answer = await tier.get(digest)
      if (answer.kind === 'absent' && !this.#isAnnounced(digest)) {
        return { answer: { kind: 'absent', tier: tier.name }, passedOver }
      }
      if (answer.kind === 'found' && this.#isCurrent(tier, digest, answer.grant)) {
        return { answer: { kind: 'found', grant: answer.grant, tier: tier.name }, passedOver }
      }
      passedOver ||= tier.name === 'key_service' && answer.kind === 'failed' && answer.why === 'withheld'
    }
    return { answer: UNKNOWN, passedOver }
  }

  /**
   * A cache that lost a write holds an older record than was announced, or than was seen here. So does the key service where
   * it reads from a replica that lags, but not for long: a key service that stays behind had its database restored from a
   * backup, and is the authority all the same. Without that bound its keys would be unknown until each gateway restarts.
   */
  #isCurrent(tier: KeyTier, digest: string, { version }: KeyGrant): boolean {
    const { changes, memory, clock } = this.#parts
    const sinceMs =
      tier.name === 'key_service' ? clock.monotonicMs() - KEY_SERVICE_LAG_MS : Number.NEGATIVE_INFINITY
    return (
      version >= changes.announcedVersion(digest, sinceMs) && version >= memory.versionOf(digest, sinceMs)
    )
  }

  /** A key service that denies a record which it has just announced reads from a replica that lags. */
  #isAnnounced(digest: string): boolean {
    const { changes, clock } = this.#parts
    return changes.announcedVersion(digest, clock.monotonicMs() - KEY_SERVICE_LAG_MS) > 0
  }

  #fill(digest: string, answer: Lookup, verified: Verified): void {
    if (answer.kind === 'found') this.#parts.memory.remember(digest, answer.grant, verified)
    if (answer.kind === 'absent') this.#parts.memory.rememberAbsent(digest, verified)
  }

  #stale(digest: string, now: Moment): Lookup {
    const { memory, staleMs } = this.#parts
    // A key may be looked up again while memory is still good.
    const fresh = memory.fresh(digest, now)
    if (fresh !== null) return fresh
    const held = memory.stale(digest, now.nowMs, staleMs)
    if (held === null) return UNKNOWN
    this.#count('stale')
    return held
  }

  #forget(digest: string, version: number): EvictionResult {
    this.#flights.supersede(digest)
    return this.#parts.memory.evictOlder(digest, version)
  }

  /** Off the way of any request: until the answer comes, and where none comes, memory is as good as it was. */
  #recheck(digest: string): void {
    if (this.#parts.memory.holds(digest)) void this.#board(digest, this.#now())
  }

  /** Hearing is judged first: that may begin a new epoch. */
  #now(): Moment {
    const nowMs = this.#parts.clock.monotonicMs()
    const hearing = this.#parts.changes.isHearing(nowMs)
    return { nowMs, hearing, epoch: this.#parts.changes.epoch }
  }

  #count(result: (typeof LOOKUP_RESULTS)[number]): void {
    this.#lookups[result].inc()
  }
}
