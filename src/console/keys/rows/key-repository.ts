import type { KeyRecord } from '../../../domain/key/key-record.ts'
import type { KEY_STATE_LABELS } from '../../../observability/metrics/metrics.ts'
import type { PendingChange, PendingChanges, RegionRegister } from '../../announcing/rows/pending-changes.ts'
import type { ChainHead } from '../../platform/audit/chain.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import type { EarlierResponse, Idempotency } from '../../platform/http/idempotency.ts'
import type { WebhookEvent } from '../../platform/jobs/delivery-rows.ts'
import type { WorkspaceKeyCounts } from '../search/count-in-workspace.ts'
import type { UnusedCounts } from '../search/count-unused.ts'
import type {
  KeyQuery,
  KeySearchPage,
  KeySelector,
  WorkspacePage,
  WorkspaceQuery,
} from '../search/key-query.ts'
import type { KeySelection } from './key-filter.ts'

export type { PendingChange } from '../../announcing/rows/pending-changes.ts'

/** A record with the digest of its key. */
export interface StoredKey {
  readonly record: KeyRecord
  readonly digest: string
}

/** The effect of one operation on the registry, committed in one transaction. */
export interface Change {
  /** A new key. */
  readonly issued: StoredKey | null
  /** The next version of one that is stored. */
  readonly replaced: StoredKey | null
  /** In their order. */
  readonly audit: readonly AuditEntry[]
  /** The response to later requests with the same Idempotency-Key. */
  readonly response: (Idempotency & { readonly outcome: string }) | null
  /** For the webhook. */
  readonly events?: readonly WebhookEvent[]
}

export type CommitOutcome =
  /** @property pending of the key issued and the key replaced, in this order, as far as there are any */
  | { readonly kind: 'committed'; readonly pending: readonly PendingChange[] }
  /** Another live key of the workspace has the same hint. */
  | { readonly kind: 'hint_taken' }
  /** The stored record is no longer the previous version: another change came first. */
  | { readonly kind: 'stale' }
  /** Another request has used this Idempotency-Key. */
  | { readonly kind: 'repeated'; readonly earlier: EarlierResponse }

/** Keys to revoke in one transaction. */
export interface BulkRevocation {
  readonly ids: readonly string[]
  /** What belongs to the revocation of one key. @param record the key as revoked */
  readonly recordOf: (key: StoredKey) => {
    readonly audit: AuditEntry
    readonly events: readonly WebhookEvent[]
  }
}

export interface BulkRevoked {
  /** In the order of their ids, without those that had ended meanwhile. */
  readonly keys: readonly StoredKey[]
  /** One for each key, in the same order. */
  readonly pending: readonly PendingChange[]
}

/** Keys of another system, in one transaction. */
export interface KeyImport {
  /** Each digest once. */
  readonly keys: readonly StoredKey[]
  readonly recordOf: BulkRevocation['recordOf']
}

/** The keys that were not there yet, with one change for each, in the same order. */
export type ImportedKeys = BulkRevoked

/** A key that has not ended, by its expiry. */
export interface LivePosition {
  readonly expiresAtMs: number
  readonly id: string
}

/** Where to look for keys of a workspace that have not ended. */
export interface LiveRange {
  readonly workspaceId: string
  readonly after: LivePosition | null
  /** The greatest id, inclusive. */
  readonly untilId: string
  readonly limit: number
}

/** What a gateway reports about itself. */
export interface GatewayReport {
  readonly id: string
  /** Shown to people. */
  readonly name: string
  /** Whose Redis it reads; `default` if it has not said. */
  readonly region: string
  /** Whether it receives invalidations. */
  readonly isConnected: boolean
  /** Whether it is shutting down. */
  readonly isLeaving: boolean
  /** Changes it has applied. */
  readonly confirmed: readonly { readonly digest: string; readonly version: number }[]
}

/** A gateway with respect to one change. Times are by the clock of the console that received its report. */
export interface GatewayStatus {
  readonly name: string
  readonly region: string
  readonly seenAtMs: number
  /** When it last trusted nothing it had cached. */
  readonly disconnectedAtMs: number
  readonly confirmed: boolean
}

export interface KeyPage {
  readonly keys: readonly StoredKey[]
  /** Where the next page starts; null on the last. */
  readonly nextAfterId: string | null
}

/** Each key is in exactly one of these. */
export type KeyCounts = Readonly<Record<(typeof KEY_STATE_LABELS)[number], number>>

/** In ms since the epoch: a working key that expires before `weekMs` is `expiring`, before `monthMs` `expiring_30d`. */
export interface ExpiryBounds {
  readonly nowMs: number
  readonly weekMs: number
  readonly monthMs: number
}

/** Keys by id. */
export interface SyncRange {
  /** Those that expire later; null: all. */
  readonly expiresAfterMs: number | null
  readonly limit: number
  readonly afterId: string | null
}

export interface PageOptions {
  readonly workspaceId: string
  readonly limit: number
  readonly afterId: string | null
}

/**
 * The system of record. A change to a key, its audit entry and its place in the outbox are one transaction: a crash
 * loses none of them.
 */
export interface KeyRepository extends PendingChanges, RegionRegister {
  /** All or nothing. */
  commit(change: Change): Promise<CommitOutcome>
  /** All or nothing; keys that have ended stay as they are. */
  revokeKeys(revocation: BulkRevocation): Promise<BulkRevoked>
  /** All or nothing; a key whose digest exists is left out. */
  importKeys(keys: KeyImport): Promise<ImportedKeys>
  /** The newest key of a workspace, in any state. */
  newestKeyId(workspaceId: string): Promise<string | null>
  /** Keys that are neither revoked nor expired, those that expire first. */
  listLive(range: LiveRange): Promise<LivePosition[]>
  findById(id: string): Promise<StoredKey | null>
  findByDigest(digest: string): Promise<StoredKey | null>
  /** Those that exist, by digest; in one query. */
  findByDigests(digests: readonly string[]): Promise<ReadonlyMap<string, StoredKey>>
  /** Those that exist, by id; in one query. */
  findByIds(ids: readonly string[]): Promise<ReadonlyMap<string, StoredKey>>
  /** Newest first, by id: ids grow with time, and new keys never move a page. */
  list(page: PageOptions & { readonly selection?: KeySelection | null }): Promise<KeyPage>
  /** Keys of any workspaces, sorted. */
  search(query: KeyQuery): Promise<KeySearchPage>
  /** Keys on all pages; null if there are too many to count within two seconds. */
  count(selector: KeySelector): Promise<number | null>
  /** For the list of one workspace; bounded. */
  countInWorkspace(workspaceId: string): Promise<WorkspaceKeyCounts>
  /** Keys that are neither revoked nor expired; one more than `MAX_LIVE` at most. */
  countLive(workspaceId: string): Promise<number>
  /** Active keys that were not used for long; bounded. */
  countUnused(workspaceId: string): Promise<UnusedCounts>
  /** Workspaces with the number of their keys in each state. */
  listWorkspaces(query: WorkspaceQuery): Promise<WorkspacePage>
  /** The entry of issuing the key, or of the rotation that did; null if there is none. */
  findOrigin(record: KeyRecord): Promise<AuditEntry | null>
  /** Entries about a key since a time, newest first. */
  listHistory(
    key: Pick<KeyRecord, 'id' | 'workspaceId'>,
    span: { readonly sinceMs: number; readonly limit: number },
  ): Promise<AuditEntry[]>
  /** Entries that report the key as leaked, newest first. */
  listLeaks(keyId: string): Promise<AuditEntry[]>
  /** Adds to the chain what a console that died has committed and not added. */
  chainAudit(): Promise<void>
  /** Signs with the first signing secret what an earlier one has signed, so that it can be verified without that one. */
  signAuditAgain(): Promise<void>
  /** The newest entry of the audit chain. */
  auditHead(): Promise<ChainHead>
  /** Whether the entry that was the newest once is still in the chain. */
  isInAudit(head: ChainHead): Promise<boolean>
  /** Commits a write as large as that of an ordinary change, which leaves nothing behind. */
  probeWrite(): Promise<void>
  findResponse(idempotency: Idempotency): Promise<EarlierResponse | null>
  /** Oldest first, in any state. */
  listForSync(page: SyncRange): Promise<KeyPage>
  countForSync(expiresAfterMs: number): Promise<number>

  /** Moves each time forward only, by at least a second; unknown ids are ignored. */
  recordUse(lastUsedMs: ReadonlyMap<string, number>): Promise<void>
  /** Only of keys that were ever used. */
  lastUses(ids: readonly string[]): Promise<ReadonlyMap<string, number>>

  recordGateway(report: GatewayReport): Promise<void>
  /** Gateways that reported since then and did not sign off. */
  countGateways(sinceMs: number): Promise<number>
  /** Gateways that reported in the last hour. */
  listGatewayStatuses(change: { readonly digest: string; readonly version: number }): Promise<GatewayStatus[]>

  countByState(census: ExpiryBounds): Promise<KeyCounts>

  /** Deletes responses and confirmations past their retention. */
  purge(): Promise<void>
  close(): Promise<void>
}
