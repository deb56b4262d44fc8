import type { KeyRecord } from '../../domain/key-record.ts'
import type { KEY_STATES } from '../../observability/metrics.ts'

/** A record with the digest under which gateways look it up. */
export interface StoredKey {
  readonly record: KeyRecord
  readonly digest: string
}

/** A committed change that has not been announced yet. */
export interface PendingChange {
  readonly digest: string
  readonly version: number
  /** When it was committed, in ms since the epoch. */
  readonly atMs: number
}

export interface KeyPage {
  readonly keys: readonly StoredKey[]
  /** The id to ask the next page with; null on the last. */
  readonly nextAfterId: string | null
}

/** Each key is in one of these: they add up to all there are. */
export type KeyCounts = Readonly<Record<(typeof KEY_STATES)[number], number>>

/**
 * The system of record. Every change to a key and the note that it must be announced are one transaction: a crash at
 * any point loses neither.
 */
export interface KeyRepository {
  /** @returns null where another live key of the workspace shows the same hint; nothing is stored then */
  insert(key: StoredKey): Promise<PendingChange | null>
  /**
   * Stores a changed record if the stored one is of the version just before it.
   * @returns null where somebody else was faster
   */
  replace(key: StoredKey): Promise<PendingChange | null>
  findById(id: string): Promise<StoredKey | null>
  findByDigest(digest: string): Promise<StoredKey | null>
  /** Newest first, by id: ids grow with time, and new keys never move a page. */
  list(question: { workspaceId: string; limit: number; afterId: string | null }): Promise<KeyPage>
  /** Oldest first. */
  pendingChanges(limit: number): Promise<PendingChange[]>
  /** In the order of versions. */
  pendingChangesOf(digest: string): Promise<PendingChange[]>
  /** The first and the last moment of a change that is pending; null where none is. */
  pendingSpan(): Promise<{ oldestMs: number; newestMs: number } | null>
  /** Once they are announced. */
  forgetChanges(changes: readonly PendingChange[]): Promise<void>
  /** @param soonMs until when a key that still works counts as `expiring` */
  countByState(nowMs: number, soonMs: number): Promise<KeyCounts>
  close(): Promise<void>
}
