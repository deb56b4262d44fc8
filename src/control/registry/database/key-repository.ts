import type { KeyRecord } from '../../../domain/key-record.ts'
import type { KEY_STATES } from '../../../observability/metrics.ts'
import type { Notice } from '../../webhooks/webhook-event.ts'
import type { AuditEntry, AuditPage } from '../operations/audit.ts'
import type { EarlierAnswer, Repetition } from '../operations/repetition.ts'
import type { KeySelection } from './key-filter.ts'

/** A record with the digest under which gateways look it up. */
export interface StoredKey {
  readonly record: KeyRecord
  readonly digest: string
}

/** What one operation does to the registry: all of it, in one transaction, or nothing. */
export interface Change {
  /** A new key. */
  readonly issued: StoredKey | null
  /** The next version of one that is stored. */
  readonly replaced: StoredKey | null
  /** In their order. */
  readonly audit: readonly AuditEntry[]
  /** What to answer to the same request with the same Idempotency-Key from now on. */
  readonly answer: (Repetition & { readonly outcome: string }) | null
  /** What to tell the webhook of it. */
  readonly notices?: readonly Notice[]
}

export type CommitOutcome =
  /** @property notes one for the key issued and one for the key replaced, in this order, of those that there are */
  | { readonly kind: 'committed'; readonly notes: readonly PendingChange[] }
  /** Another live key of the workspace shows the same hint. */
  | { readonly kind: 'hint_taken' }
  /** The stored record is not of the version just before: somebody else was faster. */
  | { readonly kind: 'stale' }
  /** Somebody else has acted on this Idempotency-Key. */
  | { readonly kind: 'repeated'; readonly earlier: EarlierAnswer }

/** A committed change that has not been announced yet. */
export interface PendingChange {
  readonly digest: string
  readonly version: number
  /** When it was committed, in ms since the epoch. */
  readonly atMs: number
}

/** What a gateway says of itself. */
export interface GatewayReport {
  readonly id: string
  /** For people. */
  readonly name: string
  /** Whether it hears of changes. */
  readonly hearing: boolean
  /** Whether it is about to end. */
  readonly leaving: boolean
  /** Changes that it has applied. */
  readonly confirmed: readonly { readonly digest: string; readonly version: number }[]
}

/** What is known of a gateway with respect to one change. Times by the clock of the console that was told. */
export interface GatewayHearing {
  readonly name: string
  readonly seenAtMs: number
  /** When it last trusted nothing that it had learnt before. */
  readonly deafAtMs: number
  readonly confirmed: boolean
}

export interface KeyPage {
  readonly keys: readonly StoredKey[]
  /** The id to ask the next page with; null on the last. */
  readonly nextAfterId: string | null
}

/** Each key is in one of these: they add up to all there are. */
export type KeyCounts = Readonly<Record<(typeof KEY_STATES)[number], number>>

/** Moments, in ms since the epoch: until `weekMs` a key that works is `expiring`, until `monthMs` `expiring_30d`. */
export interface Census {
  readonly nowMs: number
  readonly weekMs: number
  readonly monthMs: number
}

export interface PageQuestion {
  readonly workspaceId: string
  readonly limit: number
  readonly afterId: string | null
}

/**
 * The system of record. Every change to a key, its audit entry, and the note that it must be announced are one
 * transaction: a crash at any point loses none of them.
 */
export interface KeyRepository {
  /** Stores nothing unless all of it can be stored. */
  commit(change: Change): Promise<CommitOutcome>
  findById(id: string): Promise<StoredKey | null>
  findByDigest(digest: string): Promise<StoredKey | null>
  /** Those that there are, by digest; in one query. */
  findByDigests(digests: readonly string[]): Promise<ReadonlyMap<string, StoredKey>>
  /** Newest first, by id: ids grow with time, and new keys never move a page. */
  list(question: PageQuestion & { readonly selection?: KeySelection | null }): Promise<KeyPage>
  /** Newest first. */
  listAudit(question: PageQuestion): Promise<AuditPage>
  findAnswer(repetition: Repetition): Promise<EarlierAnswer | null>
  /** Oldest first: those that expire after a moment, whatever else their state is. */
  listForSync(question: { expiresAfterMs: number; limit: number; afterId: string | null }): Promise<KeyPage>
  countForSync(expiresAfterMs: number): Promise<number>

  /** Moves each forward only, by a minute or more; ids that nobody knows are passed over. */
  noteUse(lastUsedMs: ReadonlyMap<string, number>): Promise<void>
  /** Of those that were ever used. */
  lastUses(ids: readonly string[]): Promise<ReadonlyMap<string, number>>

  noteGateway(report: GatewayReport): Promise<void>
  /** All gateways that were heard of in the last hour. */
  gatewaysHearing(change: { readonly digest: string; readonly version: number }): Promise<GatewayHearing[]>

  /** Oldest first; other consoles leave them alone for a moment, in which this one announces them. */
  claimChanges(limit: number): Promise<PendingChange[]>
  /** In the order of versions. */
  pendingChangesOf(digest: string): Promise<PendingChange[]>
  /** The first and the last moment of a change that is pending; null where none is. */
  pendingSpan(): Promise<{ oldestMs: number; newestMs: number } | null>
  countPending(): Promise<number>
  /** Once they are announced. */
  forgetChanges(changes: readonly PendingChange[]): Promise<void>
  countByState(census: Census): Promise<KeyCounts>
  /** Notes again what was changed, other than issued, from a moment on. */
  noteChangesSince(sinceMs: number): Promise<void>

  /** Deletes answers and confirmations that are kept for long enough. */
  purge(): Promise<void>
  close(): Promise<void>
}
