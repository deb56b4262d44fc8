import { LRUCache } from 'lru-cache'
import type { KeyGrant } from '../../../domain/key/key-record.ts'
import {
  type CounterHandle,
  handlesBy,
  type Metrics,
  REMOVAL_CAUSES,
} from '../../../observability/metrics/metrics.ts'
import type { HeldAnswer } from '../../trust.ts'
import { ShardedCache } from './sharded-cache.ts'

/** What a change meant to memory; `current`: it held a record of that version, or of a later one. */
export type EvictionResult = 'evicted' | 'current' | 'unknown_key'

/** How the answer was obtained that is remembered. */
export type Verification = Pick<HeldAnswer, 'verifiedAtMs' | 'epoch' | 'keyServiceSkipped'>

interface HeldRecord extends HeldAnswer {
  readonly grant: KeyGrant
}

const MAX_ABSENT = 10_000
/** More lists of scopes than a configuration has reasons for; a grant with one beyond them keeps its own. */
const MAX_SCOPE_LISTS = 1_000

/** Records, and keys that do not exist, as they were last verified. Being read never lengthens a life. */
export class MemoryStore {
  readonly #random: () => number
  readonly #removals: Readonly<Record<(typeof REMOVAL_CAUSES)[number], CounterHandle>>
  readonly #records: ShardedCache<HeldRecord>
  /** By itself, so that keys that do not exist push no record out. */
  readonly #absent = new LRUCache<string, HeldAnswer>({ max: MAX_ABSENT })
  readonly #scopeLists = new Map<string, readonly string[]>()

  constructor(maxEntries: number, deps: { metrics: Metrics; random?: () => number }) {
    const { metrics, random = Math.random } = deps
    this.#random = random
    this.#removals = handlesBy(REMOVAL_CAUSES, cause => metrics.cacheRemovals.handle({ cause }))
    this.#records = new ShardedCache(maxEntries, () => this.#removals.size.inc())
    metrics.cacheCapacity.set(maxEntries)
    metrics.cacheEntries.onCollect(gauge => gauge.set(this.#records.size))
  }

  get(digest: string): HeldAnswer | undefined {
    return this.#records.shardOf(digest).get(digest) ?? this.#absent.get(digest)
  }

  /** Without counting as a use. */
  peek(digest: string): HeldAnswer | undefined {
    return this.#records.shardOf(digest).peek(digest) ?? this.#absent.peek(digest)
  }

  remember(digest: string, grant: KeyGrant, { verifiedAtMs, epoch, keyServiceSkipped }: Verification): void {
    this.#absent.delete(digest)
    const shared = { ...grant, scopes: this.#sharedList(grant.scopes) }
    const record = { grant: shared, verifiedAtMs, epoch, jitter: this.#random(), keyServiceSkipped }
    this.#records.shardOf(digest).set(digest, record)
  }

  rememberAbsent(digest: string, verification: Verification): void {
    this.#remove(digest)
    this.#absent.set(digest, { grant: null, jitter: 0, ...verification })
  }

  /** Forgets a record of an older version, and that there is none. */
  evictOlder(digest: string, version: number): EvictionResult {
    const record = this.#records.shardOf(digest).peek(digest)
    if (record === undefined) return this.#absent.delete(digest) ? 'evicted' : 'unknown_key'
    if (record.grant.version >= version) return 'current'
    this.#remove(digest)
    return 'evicted'
  }

  #remove(digest: string): void {
    if (this.#records.shardOf(digest).delete(digest)) this.#removals.invalidated.inc()
  }

  /** Most keys have one of a few lists of scopes: a list of its own would add a quarter to the size of a record. */
  #sharedList(scopes: readonly string[]): readonly string[] {
    const name = scopes.join(' ')
    const known = this.#scopeLists.get(name)
    if (known !== undefined) return known
    if (this.#scopeLists.size < MAX_SCOPE_LISTS) this.#scopeLists.set(name, scopes)
    return scopes
  }
}
