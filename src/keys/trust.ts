import type { KeyGrant } from '../domain/key/key-record.ts'
import type { TierName } from '../domain/key/lookup.ts'
import { REVOCATION_TIMING } from '../domain/revocation-timing.ts'

const { disconnectedTrustMs, keyServiceLagMs, keyServiceSkippedAgeMs } = REVOCATION_TIMING
/** Share of the time to live that jitter takes away, so that replicas do not all verify a busy key at one moment. */
const TTL_JITTER = 0.1
/** The same while disconnected: keys verified together spread over the next seconds. */
const DISCONNECTED_JITTER = 0.3

/** The state of the invalidation channel at one instant. */
export interface Moment {
  /** Monotonic, ms. */
  readonly nowMs: number
  readonly isConnected: boolean
  /** Grows whenever a change may have been missed. */
  readonly epoch: number
}

/** What memory holds of one key. */
export interface HeldAnswer {
  /** Null if the key service said that there is no such key. */
  readonly grant: KeyGrant | null
  /** When the lookup began that verified it: monotonic, ms. */
  readonly verifiedAtMs: number
  /** In which the lookup began. */
  readonly epoch: number
  /** From 0 to 1: the part of the jitter that this entry gives up. */
  readonly jitter: number
  /** Redis answered because the circuit of the key service was open. */
  readonly keyServiceSkipped: boolean
}

export interface TrustLimits {
  readonly ttlMs: number
  readonly absentTtlMs: number
  /** How long a record may outlive its last verification if no store answers; 0 for never. */
  readonly staleMs: number
}

/** `stale`: to be used only if no store answers. */
export type HeldTrust = 'fresh' | 'stale' | 'expired'

/** Whether what memory holds may be used now. */
export function trustHeld(held: HeldAnswer, now: Moment, limits: TrustLimits): HeldTrust {
  const ageMs = now.nowMs - held.verifiedAtMs
  const { grant, jitter } = held
  const lifeMs = grant === null ? limits.absentTtlMs : limits.ttlMs * (1 - TTL_JITTER * jitter)
  const isInLife = held.epoch === now.epoch && ageMs < lifeMs
  if (isInLife && (now.isConnected || ageMs <= disconnectedLifeMs(held))) return 'fresh'
  return grant !== null && limits.staleMs > 0 && ageMs <= limits.staleMs ? 'stale' : 'expired'
}

/** Redis may be behind. What it says counts for less, because it takes a moment to notice that the key service is back. */
function disconnectedLifeMs({ jitter, keyServiceSkipped }: HeldAnswer): number {
  const mostMs = disconnectedTrustMs - (keyServiceSkipped ? keyServiceSkippedAgeMs : 0)
  return mostMs * (1 - DISCONNECTED_JITTER * jitter)
}

/** What a store has just answered. */
export interface StoreAnswer {
  readonly tier: Exclude<TierName, 'memory'>
  /** Null for "there is no such key", which only the key service says. */
  readonly grant: KeyGrant | null
  /** The epoch in which the lookup began. */
  readonly epoch: number
  /** A change of the key arrived since the lookup began. */
  readonly isSuperseded: boolean
}

/** A version that is known to exist. */
export interface KnownVersion {
  readonly version: number
  /** Monotonic, ms. */
  readonly knownAtMs: number
}

/** What is known of a key when a store answers. */
export interface Knowledge {
  readonly announced: KnownVersion | null
  readonly held: KnownVersion | null
}

/** `outdated`: the next store may know better. `superseded`: it may predate a change, and the lookup begins anew. */
export type StoreTrust = 'fresh' | 'outdated' | 'superseded'

/** Whether the answer of a store may be used now. */
export function trustStore(answer: StoreAnswer, now: Moment, known: Knowledge): StoreTrust {
  if (isOutdated(answer, now, known)) return 'outdated'
  if (answer.isSuperseded) return 'superseded'
  // The key service is right without the channel. In memory such an answer counts as one of its own, older epoch.
  return answer.epoch === now.epoch || answer.tier === 'key_service' ? 'fresh' : 'superseded'
}

/**
 * Redis may have lost a write, and the key service may read from a replica that lags. A key service that stays behind for
 * longer had its database restored from a backup, and is believed.
 */
function isOutdated(
  { tier, grant }: StoreAnswer,
  { nowMs }: Moment,
  { announced, held }: Knowledge,
): boolean {
  const sinceMs = tier === 'key_service' ? nowMs - keyServiceLagMs : Number.NEGATIVE_INFINITY
  const isBehind = (known: KnownVersion | null): boolean =>
    known !== null && known.knownAtMs >= sinceMs && (grant === null || grant.version < known.version)
  // That a key is gone contradicts an announcement, but not a record that was held before.
  return isBehind(announced) || (grant !== null && isBehind(held))
}

/**
 * Whether a request may wait for a lookup that began before it. While disconnected no change supersedes the lookup, so it
 * is joined for as long as its answer would be trusted.
 */
export function mayJoin(began: Moment, now: Moment): boolean {
  return began.epoch === now.epoch && (now.isConnected || now.nowMs - began.nowMs <= disconnectedTrustMs)
}
