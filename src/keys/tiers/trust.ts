import type { KeyGrant, TierName } from '../../domain/key/key-record.ts'
import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'

const { disconnectedTrustMs, disconnectedBoundMs, keyServiceLagMs, keyServiceSkippedAgeMs } =
  REVOCATION_TIMING
/** Share of the time to live that jitter takes away, so that replicas do not all verify a busy key at one moment. */
const TTL_JITTER = 0.1
/** The same while disconnected: keys verified together spread over the next seconds. */
const DISCONNECTED_JITTER = 0.3

/** The state of the invalidation channel at one instant. */
export interface ChannelState {
  /** Monotonic, ms. */
  readonly nowMs: number
  readonly isConnected: boolean
  /** Grows whenever a change may have been missed. */
  readonly epoch: number
}

export interface MemoryEntry {
  /** Null if the key service returned that there is no such key. */
  readonly grant: KeyGrant | null
  /** When the lookup that verified it began: monotonic, ms. */
  readonly verifiedAtMs: number
  /** The epoch in which that lookup began. */
  readonly epoch: number
  /** How much of the maximum jitter shortens the life of this entry: a whole number, since a fraction would take 16 bytes more. */
  readonly jitterPercent: number
  /** Read from Redis because the circuit of the key service was open. */
  readonly keyServiceSkipped: boolean
}

export interface TrustLimits {
  readonly ttlMs: number
  readonly absentTtlMs: number
  /** How long after its last verification a record may be used if no store responds; 0 for never. */
  readonly staleMs: number
}

/** `stale`: may be used only if no store responds. */
export type EntryTrust = 'fresh' | 'stale' | 'expired'

/** Whether an entry of memory may be used now. */
export function trustEntry(held: MemoryEntry, now: ChannelState, limits: TrustLimits): EntryTrust {
  const ageMs = now.nowMs - held.verifiedAtMs
  const { grant, jitterPercent } = held
  const lifeMs = grant === null ? limits.absentTtlMs : limits.ttlMs * (1 - (TTL_JITTER * jitterPercent) / 100)
  const isInLife = held.epoch === now.epoch && ageMs < lifeMs
  if (isInLife && (now.isConnected || ageMs <= disconnectedLifeMs(held))) return 'fresh'
  return grant !== null && limits.staleMs > 0 && ageMs <= limits.staleMs ? 'stale' : 'expired'
}

/** Redis may be outdated: its records are trusted for less time, because a returning key service is noticed late. */
function disconnectedLifeMs({ jitterPercent, keyServiceSkipped }: MemoryEntry): number {
  const mostMs = disconnectedTrustMs - (keyServiceSkipped ? keyServiceSkippedAgeMs : 0)
  return mostMs * (1 - (DISCONNECTED_JITTER * jitterPercent) / 100)
}

/** What a store has just returned. */
export interface StoreResult {
  readonly tier: Exclude<TierName, 'memory'>
  /** Null for "there is no such key", which only the key service returns. */
  readonly grant: KeyGrant | null
  /** The epoch in which the lookup began. */
  readonly epoch: number
  /** When the store was asked: monotonic, ms. */
  readonly askedAtMs: number
  /** A change of the key arrived since the lookup began. */
  readonly isSuperseded: boolean
}

/** A version that is known to exist. */
export interface KnownVersion {
  readonly version: number
  /** Monotonic, ms. */
  readonly knownAtMs: number
}

/** The known versions of a key when a store responds. */
export interface KnownVersions {
  readonly announced: KnownVersion | null
  readonly held: KnownVersion | null
}

/** `outdated`: the next store may have a newer version. `superseded`: it may predate a change; the lookup starts again. */
export type StoreTrust = 'fresh' | 'outdated' | 'superseded'

/** Whether the result of a store may be used now. */
export function trustStore(result: StoreResult, now: ChannelState, known: KnownVersions): StoreTrust {
  if (isOutdated(result, now, known)) return 'outdated'
  if (result.isSuperseded) return 'superseded'
  const isSameEpoch = result.epoch === now.epoch
  if (result.tier === 'redis') return isSameEpoch ? 'fresh' : 'superseded'
  if (isSameEpoch && now.isConnected) return 'fresh'
  // The key service is right without the channel, at the time when it is asked: this process may have been suspended since.
  // In memory such a result belongs to the older epoch in which it began.
  return now.nowMs - result.askedAtMs < disconnectedBoundMs ? 'fresh' : 'superseded'
}

/**
 * Redis may have lost a write, and the key service may read from a replica that lags. If the key service stays behind for
 * longer, its database was restored from a backup, and its records are used.
 */
function isOutdated(
  { tier, grant }: StoreResult,
  { nowMs }: ChannelState,
  { announced, held }: KnownVersions,
): boolean {
  const sinceMs = tier === 'key_service' ? nowMs - keyServiceLagMs : Number.NEGATIVE_INFINITY
  const isBehind = (known: KnownVersion | null): boolean =>
    known !== null && known.knownAtMs >= sinceMs && (grant === null || grant.version < known.version)
  // A missing key contradicts an announcement, but not a record that memory held before.
  return isBehind(announced) || (grant !== null && isBehind(held))
}

/**
 * Whether a request may wait for a lookup that began before it. While disconnected no change supersedes a lookup, so
 * requests join it for as long as its result would be trusted.
 */
export function mayJoin(began: ChannelState, now: ChannelState): boolean {
  return began.epoch === now.epoch && (now.isConnected || now.nowMs - began.nowMs <= disconnectedTrustMs)
}
