import { LRUCache } from 'lru-cache'
import type { KeyGrant } from '../domain/key-record.ts'
import type { Lookup } from '../domain/lookup.ts'
import type { Metrics, REMOVAL_CAUSES } from '../observability/metrics.ts'

/** Now, and what memory is worth now. */
export interface Moment {
  /** Monotonic, ms. */
  readonly nowMs: number
  readonly hearing: boolean
  readonly epoch: number
}

export interface Verified {
  /** When the look-up began that verified it: monotonic, ms. */
  readonly verifiedAtMs: number
  readonly epoch: number
}

interface Entry extends Verified {
  readonly grant: KeyGrant
  /** The time to live, already spread. */
  readonly freshUntilMs: number
  /** The same, for while nothing is heard. */
  readonly deafUntilMs: number
}

export interface MemorySettings {
  readonly maxEntries: number
  readonly ttlMs: number
  readonly absentTtlMs: number
}

/** How long, at most, a replica that hears no changes trusts what it was told. */
export const DEAF_TRUST_MS = 1_000
const MAX_ABSENT = 10_000
const MAX_SCOPE_LISTS = 1_000
/** Of the time to live, so that a hot key is not asked for by every replica at one moment. */
const TTL_SPREAD = 0.1
/** Of the trust while deaf: keys that were verified in one tick spread over the next seconds, not all at once in each. */
const DEAF_SPREAD = 0.3

/** Records and refusals that were verified a while ago. Being read never lengthens a life. */
export class MemoryStore {
  readonly #settings: MemorySettings
  readonly #metrics: Metrics
  readonly #random: () => number
  readonly #records: LRUCache<string, Entry>
  readonly #absent = new LRUCache<string, Verified>({ max: MAX_ABSENT })
  readonly #scopeLists = new Map<string, readonly string[]>()

  constructor(settings: MemorySettings, deps: { metrics: Metrics; random?: () => number }) {
    this.#settings = settings
    this.#metrics = deps.metrics
    this.#random = deps.random ?? Math.random
    this.#records = new LRUCache({
      max: settings.maxEntries,
      dispose: (_entry, _digest, reason) => {
        if (reason === 'evict') this.#countRemoval('size')
      },
    })
    this.#metrics.cacheCapacity.set(settings.maxEntries)
    this.#metrics.cacheEntries.set(0)
  }

  /** What may be used without asking anybody. */
  fresh(digest: string, moment: Moment): Lookup | null {
    const entry = this.#records.get(digest)
    if (entry !== undefined) {
      return isFresh(entry, moment) ? { kind: 'found', grant: entry.grant, tier: 'memory' } : null
    }
    const absent = this.#absent.get(digest)
    if (absent === undefined || absent.epoch !== moment.epoch) return null
    const ageMs = moment.nowMs - absent.verifiedAtMs
    if (!moment.hearing && ageMs > DEAF_TRUST_MS) return null
    return ageMs < this.#settings.absentTtlMs ? { kind: 'absent', tier: 'memory' } : null
  }

  /**
   * What may be used only because nobody answers, whatever its epoch: no change of it was heard since.
   * @param maxAgeMs since it was last verified; 0 allows none
   */
  stale(digest: string, nowMs: number, maxAgeMs: number): Lookup | null {
    const entry = this.#records.get(digest)
    if (entry === undefined || maxAgeMs <= 0) return null
    if (nowMs - entry.verifiedAtMs <= maxAgeMs) return { kind: 'found', grant: entry.grant, tier: 'memory' }
    this.#remove(digest, 'ttl')
    return null
  }

  /**
   * The version held, fresh or not: a floor for what others may answer.
   * @param verifiedSinceMs what was last verified before that is no floor
   */
  versionOf(digest: string, verifiedSinceMs = Number.NEGATIVE_INFINITY): number {
    const entry = this.#records.peek(digest)
    return entry === undefined || entry.verifiedAtMs < verifiedSinceMs ? 0 : entry.grant.version
  }

  /** @param verified when the look-up began, and in which epoch */
  remember(digest: string, grant: KeyGrant, verified: Verified): void {
    const { epoch } = verified
    // Whole numbers, because V8 keeps each fraction in an object of its own.
    const verifiedAtMs = Math.floor(verified.verifiedAtMs)
    const share = this.#random()
    const freshUntilMs = Math.floor(verifiedAtMs + this.#settings.ttlMs * (1 - TTL_SPREAD * share))
    const deafUntilMs = Math.floor(verifiedAtMs + DEAF_TRUST_MS * (1 - DEAF_SPREAD * share))
    this.#absent.delete(digest)
    this.#records.set(digest, { grant: this.#lean(grant), verifiedAtMs, epoch, freshUntilMs, deafUntilMs })
    this.#metrics.cacheEntries.set(this.#records.size)
  }

  rememberAbsent(digest: string, verified: Verified): void {
    this.#remove(digest, 'invalidated')
    this.#absent.set(digest, { verifiedAtMs: verified.verifiedAtMs, epoch: verified.epoch })
  }

  /** @returns whether anything was held */
  evict(digest: string): boolean {
    const wasAbsent = this.#absent.delete(digest)
    return this.#remove(digest, 'invalidated') || wasAbsent
  }

  flush(): void {
    this.#countRemoval('flush', this.#records.size)
    this.#records.clear()
    this.#absent.clear()
    this.#metrics.cacheEntries.set(0)
  }

  /** Most keys share a few lists of scopes: one array for all that are equal. */
  #lean(grant: KeyGrant): KeyGrant {
    const name = grant.scopes.join(' ')
    const known = this.#scopeLists.get(name)
    if (known !== undefined) return { ...grant, scopes: known }
    if (this.#scopeLists.size < MAX_SCOPE_LISTS) this.#scopeLists.set(name, grant.scopes)
    return grant
  }

  #remove(digest: string, cause: (typeof REMOVAL_CAUSES)[number]): boolean {
    const held = this.#records.delete(digest)
    if (held) this.#countRemoval(cause)
    this.#metrics.cacheEntries.set(this.#records.size)
    return held
  }

  #countRemoval(cause: (typeof REMOVAL_CAUSES)[number], count = 1): void {
    this.#metrics.cacheRemovals.inc({ cause }, count)
  }
}

function isFresh(entry: Entry, { nowMs, hearing, epoch }: Moment): boolean {
  if (entry.epoch !== epoch || nowMs >= entry.freshUntilMs) return false
  return hearing || nowMs <= entry.deafUntilMs
}
