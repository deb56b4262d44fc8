import type { Clock } from '../domain/clock.ts'
import type { KeyGrant, Lookup, TierName } from '../domain/key/key-record.ts'
import { REVOCATION_TIMING } from '../domain/revocation-timing.ts'
import {
  type CounterHandle,
  handlesBy,
  LOOKUP_RESULTS,
  type Metrics,
} from '../observability/metrics/metrics.ts'
import type { InvalidationListener } from './invalidation/invalidation-listener.ts'
import type { KeyStore, KeyTier, StoreName } from './tiers/key-store.ts'
import type { MemoryStore } from './tiers/memory-store.ts'
import {
  type ChannelState,
  type KnownVersions,
  type MemoryEntry,
  mayJoin,
  type StoreResult,
  type StoreTrust,
  type TrustLimits,
  trustEntry,
  trustStore,
} from './tiers/trust.ts'
import type { UnsignedLookupBudget } from './unsigned-lookup-budget.ts'

const MAX_IN_FLIGHT = 10_000
/** Lookups of one request. If changes supersede all of them, the result is `unknown`. */
const MAX_ATTEMPTS = 3
const UNKNOWN: Lookup = { kind: 'unknown' }
const LIMITED: Lookup = { kind: 'limited' }

interface LookupChainParts {
  readonly memory: MemoryStore
  readonly invalidations: InvalidationListener
  /** Null if none is configured. */
  readonly redis: KeyTier | null
  /** Null if none is configured. */
  readonly keyService: KeyTier | null
  readonly clock: Clock
  readonly metrics: Metrics
  readonly limits: TrustLimits
  readonly unsignedBudget: UnsignedLookupBudget
  readonly maxInFlight?: number
}

/** Asks memory, Redis and the key service, and fills memory. While disconnected, asks the key service before Redis. */
export class LookupChain implements KeyStore {
  readonly #parts: LookupChainParts
  readonly #inFlight: InFlightLookups
  readonly #redisFirst: readonly KeyTier[]
  readonly #keyServiceFirst: readonly KeyTier[]
  readonly #lookups: Readonly<Record<(typeof LOOKUP_RESULTS)[number], CounterHandle>>
  /** Grows when memory is emptied: lookups that began before fill it no more. */
  #generation = 0

  constructor(parts: LookupChainParts) {
    this.#parts = parts
    this.#inFlight = new InFlightLookups(parts.maxInFlight ?? MAX_IN_FLIGHT)
    this.#redisFirst = [parts.redis, parts.keyService].filter(tier => tier !== null)
    this.#keyServiceFirst = this.#redisFirst.toReversed()
    this.#lookups = handlesBy(LOOKUP_RESULTS, result =>
      parts.metrics.lookups.handle({ tier: 'memory', result }),
    )
    parts.invalidations.onChange((digest, version) => {
      this.#inFlight.supersede(digest)
      return parts.memory.evictOlder(digest, version)
    })
    parts.invalidations.onRecheck(digest => this.#recheck(digest))
  }

  get(digest: string, unsignedFrom: string | null = null): Lookup | Promise<Lookup> {
    const now = this.#now()
    const fresh = this.#fresh(digest, now)
    if (fresh === null) {
      const isLimited = unsignedFrom !== null && !this.#isKnown(digest, now)
      return isLimited ? this.#lookUpInvented(digest, now, unsignedFrom) : this.#lookUp(digest, now)
    }
    this.#lookups[fresh.kind === 'found' ? 'hit' : 'negative'].inc()
    return fresh
  }

  holds(digest: string): boolean {
    return this.#parts.memory.peek(digest) !== undefined
  }

  /** For signing secrets that are no longer in use: no entry of memory may vouch for a key that one of them signed. */
  forgetAll(): void {
    this.#generation++
    this.#parts.memory.clear()
  }

  /** Whether memory has a record of the key, however old, or a lookup of it is in flight: then this one costs no more. */
  #isKnown(digest: string, now: ChannelState): boolean {
    const held = this.#parts.memory.peek(digest)
    return (held !== undefined && held.grant !== null) || this.#inFlight.find(digest, now) !== null
  }

  /** For a key that a client may have invented. Half of the lookups in flight are left to the others. */
  #lookUpInvented(digest: string, now: ChannelState, address: string): Lookup | Promise<Lookup> {
    const { unsignedBudget } = this.#parts
    if (this.#inFlight.isHalfFull || !unsignedBudget.take(address, now.nowMs)) return LIMITED
    return this.#lookUp(digest, now).then(lookup => {
      if (lookup.kind === 'found') unsignedBudget.putBack(address)
      return lookup
    })
  }

  async #lookUp(digest: string, began: ChannelState): Promise<Lookup> {
    this.#lookups[this.#inFlight.find(digest, began) === null ? 'miss' : 'coalesced'].inc()
    const generation = this.#generation
    let now = began
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const lookup = await this.#joinOrBegin(digest, now, generation)
      if (lookup !== null) return lookup
      now = this.#now()
      const fresh = this.#fresh(digest, now)
      if (fresh !== null) return fresh
    }
    return UNKNOWN
  }

  #joinOrBegin(digest: string, now: ChannelState, generation: number): Promise<Lookup | null> {
    const lookup = this.#inFlight.find(digest, now)
    if (lookup !== null) return lookup.result
    if (this.#inFlight.isFull) return Promise.resolve(UNKNOWN)
    return this.#inFlight.begin(digest, { began: now, generation }, begun => this.#queryStores(digest, begun))
      .result
  }

  /** @returns null if the result may predate a change that arrived, or was missed, since the lookup began */
  async #queryStores(digest: string, lookup: InFlightLookup): Promise<Lookup | null> {
    let keyServiceSkipped = false
    let keyServiceFailedAtMs = Number.POSITIVE_INFINITY
    for (const tier of lookup.began.isConnected ? this.#redisFirst : this.#keyServiceFirst) {
      const { name } = tier
      const askedAtMs = this.#parts.clock.monotonicMs()
      const result = await tier.get(digest)
      if (result.kind === 'found' || result.kind === 'absent') {
        const grant = result.kind === 'found' ? result.grant : null
        const trust = this.#trustIn({ tier: name, grant, askedAtMs }, digest, lookup)
        if (trust === 'superseded') return null
        if (trust === 'fresh') return this.#remember(name, digest, grant, { ...lookup, keyServiceSkipped })
      }
      keyServiceSkipped ||= name === 'key_service' && result.kind === 'failed' && result.why === 'skipped'
      if (name === 'key_service') keyServiceFailedAtMs = this.#parts.clock.monotonicMs()
    }
    const now = this.#now()
    // This process may have been suspended since the key service failed, which may respond by now.
    if (now.nowMs - keyServiceFailedAtMs > REVOCATION_TIMING.disconnectedTrustMs) return null
    return lookup.isSuperseded || lookup.began.epoch !== now.epoch ? null : this.#fallBack(digest, now)
  }

  #trustIn(
    result: Pick<StoreResult, 'tier' | 'grant' | 'askedAtMs'>,
    digest: string,
    { began, isSuperseded }: InFlightLookup,
  ): StoreTrust {
    const now = this.#now()
    return trustStore({ ...result, epoch: began.epoch, isSuperseded }, now, this.#findKnownVersions(digest))
  }

  #findKnownVersions(digest: string): KnownVersions {
    const { memory, invalidations } = this.#parts
    const held = memory.peek(digest)
    const isRecord = held !== undefined && held.grant !== null
    return {
      announced: invalidations.announcedVersion(digest),
      held: isRecord ? { version: held.grant.version, knownAtMs: held.verifiedAtMs } : null,
    }
  }

  #remember(
    tier: StoreName,
    digest: string,
    grant: KeyGrant | null,
    { began, generation, keyServiceSkipped }: LookupStart & { readonly keyServiceSkipped: boolean },
  ): Lookup {
    const { memory } = this.#parts
    const verification = { verifiedAtMs: began.nowMs, epoch: began.epoch, keyServiceSkipped }
    if (generation !== this.#generation) return lookupIn(tier, grant)
    if (grant === null) memory.rememberAbsent(digest, verification)
    else memory.remember(digest, grant, verification)
    return lookupIn(tier, grant)
  }

  /** No store responded. The entry in memory may still be fresh if this lookup was only a recheck. */
  #fallBack(digest: string, now: ChannelState): Lookup {
    const held = this.#parts.memory.get(digest)
    if (held === undefined) return UNKNOWN
    const trust = trustEntry(held, now, this.#parts.limits)
    if (trust === 'expired') return UNKNOWN
    if (trust === 'stale') this.#lookups.stale.inc()
    return toLookup(held)
  }

  #fresh(digest: string, now: ChannelState): Lookup | null {
    const held = this.#parts.memory.get(digest)
    return held !== undefined && trustEntry(held, now, this.#parts.limits) === 'fresh' ? toLookup(held) : null
  }

  /** Not on the path of a request. Memory stays trusted until the result arrives, and if no store responds. */
  #recheck(digest: string): void {
    if (this.holds(digest)) void this.#joinOrBegin(digest, this.#now(), this.#generation)
  }

  /** Checks the connection first, because that may begin a new epoch. */
  #now(): ChannelState {
    const { clock, invalidations } = this.#parts
    const nowMs = clock.monotonicMs()
    const isConnected = invalidations.isConnected(nowMs)
    return { nowMs, isConnected, epoch: invalidations.epoch }
  }
}

function toLookup({ grant }: MemoryEntry): Lookup {
  return lookupIn('memory', grant)
}

function lookupIn(tier: TierName, grant: KeyGrant | null): Lookup {
  return grant === null ? { kind: 'absent', tier } : { kind: 'found', grant, tier }
}

interface LookupStart {
  readonly began: ChannelState
  readonly generation: number
}

interface InFlightLookup extends LookupStart {
  /** A change of its key arrived since it began: its result may predate the change. */
  isSuperseded: boolean
  /** Null if the result must not be used. */
  result: Promise<Lookup | null>
}

/** One lookup in flight for each key, and a limited number in all. */
export class InFlightLookups {
  readonly #byDigest = new Map<string, InFlightLookup>()
  readonly #limit: number
  #count = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get isFull(): boolean {
    return this.#count >= this.#limit
  }

  get isHalfFull(): boolean {
    return this.#count >= this.#limit / 2
  }

  /** The lookup that a request may join now, or null. */
  find(digest: string, now: ChannelState): InFlightLookup | null {
    const lookup = this.#byDigest.get(digest)
    return lookup !== undefined && mayJoin(lookup.began, now) ? lookup : null
  }

  /** @param run resolves to null if its result must not be used; never rejects */
  begin(
    digest: string,
    start: LookupStart,
    run: (lookup: InFlightLookup) => Promise<Lookup | null>,
  ): InFlightLookup {
    const lookup: InFlightLookup = { ...start, isSuperseded: false, result: Promise.resolve(null) }
    this.#byDigest.set(digest, lookup)
    this.#count++
    lookup.result = run(lookup).finally(() => this.#end(digest, lookup))
    return lookup
  }

  /** Later requests begin a lookup of their own. */
  supersede(digest: string): void {
    const lookup = this.#byDigest.get(digest)
    if (lookup === undefined) return
    lookup.isSuperseded = true
    this.#byDigest.delete(digest)
  }

  #end(digest: string, lookup: InFlightLookup): void {
    this.#count--
    if (this.#byDigest.get(digest) === lookup) this.#byDigest.delete(digest)
  }
}
