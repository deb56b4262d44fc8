import type { KeyTexts } from '../../../domain/key/key-texts.ts'

/** Rows as the database holds them; times are milliseconds since the epoch. Each text of a key is a column of its name. */
export interface KeyRow extends KeyTexts {
  readonly id: string
  readonly digest: string
  readonly workspace_id: string
  readonly name: string
  /** A JSON list: one form for every database. */
  readonly scopes: string
  readonly hint: string
  readonly created_at_ms: number
  readonly created_by: string
  readonly expires_at_ms: number
  readonly revoked_at_ms: number | null
  readonly suspended_at_ms: number | null
  /** A JSON list; null if every address is allowed. */
  readonly allowed_cidrs: string | null
  readonly plan: string | null
  readonly rotated_from: string | null
  readonly replaced_by: string | null
  readonly version: number
  /** When this version was committed. */
  readonly changed_at_ms: number
}

/** The plan of a workspace: that of keys for which none is chosen. A workspace without a plan has no row. */
interface WorkspacePlanRow {
  readonly workspace_id: string
  readonly plan: string
}

/** Of the secret that signed an entry, and the MAC; null for an entry that was not signed. */
export interface AuditSignature {
  /** The fingerprint of the signing secret. */
  readonly signed_by: string | null
  /** In base64url. */
  readonly mac: string | null
}

/** What an audit entry says. */
export interface AuditFields {
  /** Grows with time: the order of the entries. */
  readonly id: string
  /** Empty for none. */
  readonly workspace_id: string
  readonly at_ms: number
  readonly actor: string
  readonly action: string
  /** Empty for none. */
  readonly key_id: string
  /** A JSON object. */
  readonly detail: string
}

/** Append-only: triggers refuse deletions, and updates of all but the signature. */
export interface AuditRow extends AuditFields, AuditSignature {
  /** Place in the chain; null for an entry outside it, which no console writes. */
  readonly sequence: number | null
  /** Over this entry and the hash of the one before. */
  readonly hash: string | null
}

/** An entry that is committed and not in the table `audit` yet. */
export interface QueuedAuditRow extends AuditFields, AuditSignature {
  /** When a console found that no console wrote it, or that its signing secret is not given; null for all others. */
  readonly rejected_at_ms: number | null
}

/** One row: the newest entry of the audit chain. */
export interface AuditHeadRow {
  readonly id: number
  readonly sequence: number
  readonly hash: string
}

/** A token for programs that use the admin API. */
export interface AdminTokenRow {
  readonly id: string
  /** SHA-256 of the whole token. */
  readonly digest: string
  readonly name: string
  readonly hint: string
  /** A JSON list. */
  readonly permissions: string
  /** A JSON list; null for all workspaces. */
  readonly workspaces: string | null
  readonly created_at_ms: number
  readonly created_by: string
  readonly expires_at_ms: number
  readonly revoked_at_ms: number | null
  /** To the minute. */
  readonly last_used_at_ms: number | null
}

/** The response to a request with an Idempotency-Key. It holds nothing that the caller sent. */
interface IdempotentResponseRow {
  /** SHA-256 of the actor and the Idempotency-Key. */
  readonly id: string
  /** SHA-256 of the request. */
  readonly request: string
  /** A JSON object: the records of the response, without the secret. */
  readonly outcome: string
  readonly at_ms: number
}

/** Apart from the record: use does not change its version. Triggers add a row for each new key. */
interface KeyUseRow {
  readonly key_id: string
  /** The key's, for the list of a workspace by last use. */
  readonly workspace_id: string
  /** 0: never. */
  readonly last_used_at_ms: number
}

/** A signed-in session. Only the digest of its id is stored, so that a reader of the table cannot take it over. */
export interface SessionRow {
  /** SHA-256 of the session id. */
  readonly digest: string
  readonly subject: string
  /** A JSON object. */
  readonly person: string
  readonly csrf_secret: string
  readonly started_at_ms: number
  /** The last request, to the minute or so. */
  readonly seen_at_ms: number
}

/** A committed change that is not announced to a region yet. */
interface OutboxRow {
  readonly region: string
  readonly digest: string
  readonly version: number
  /** When it was committed. */
  readonly at_ms: number
  /** The console that is announcing it; others leave it alone until then. */
  readonly claimed_by: string
  readonly claimed_until_ms: number
}

/** A region that gets every change. */
interface RegionRow {
  readonly name: string
  /** When a console last stated that it announces to it. */
  readonly seen_at_ms: number
  /** The changes of keys up to this id are in its outbox; null once those of all keys were. */
  readonly requeued_until: string | null
  /** That of the Redis which is announced to; empty until a console has marked one. */
  readonly mark: string
  /** Since when. */
  readonly marked_at_ms: number
  /** When a console that announces there said so last; 0 until it has found the mark there. */
  readonly mark_kept_at_ms: number
}

/** A gateway that has reported to a console. */
interface GatewayRow {
  readonly id: string
  /** For people. */
  readonly name: string
  readonly seen_at_ms: number
  /** When it was last known to trust nothing it had cached. */
  readonly disconnected_at_ms: number
  readonly region: string
}

/** A gateway's statement that it applied a change. */
interface ConfirmationRow {
  readonly digest: string
  readonly version: number
  readonly gateway_id: string
  readonly at_ms: number
}

/** A workspace's own webhook. */
export interface WorkspaceWebhookRow {
  readonly workspace_id: string
  readonly url: string
  /** As it is: events are signed with it. */
  readonly secret: string
  readonly created_at_ms: number
  readonly created_by: string
}

/** A receiver of webhook events, and how sending to it goes. */
interface WebhookReceiverRow {
  /** A workspace; empty for the operator. */
  readonly receiver: string
  /** Attempts in a row that failed. */
  readonly failures: number
  /** No attempt before. */
  readonly paused_until_ms: number
  /** The console that is sending its events has it until then. */
  readonly claimed_until_ms: number
  readonly attempted_at_ms: number
}

/** A webhook event on its way to one receiver. */
export interface DeliveryRow {
  /** A workspace; empty for the operator. */
  readonly receiver: string
  readonly id: string
  readonly workspace_id: string
  readonly key_id: string
  readonly type: string
  /** Unique for a receiver. */
  readonly deduplication_key: string
  readonly at_ms: number
  readonly body: string
  readonly attempts: number
  /** When to send it, or until when a console has claimed it; null once delivered or given up. */
  readonly due_at_ms: number | null
  readonly delivered_at_ms: number | null
  readonly last_status: number | null
  readonly last_error: string | null
}

/** A secret that signed keys of this database, by its fingerprint. */
interface SigningSecretRow {
  readonly fingerprint: string
  readonly first_used_at_ms: number
  /** When a console last stated that it signs audit entries with it. */
  readonly signs_audit_at_ms: number
}

/** Requests of a key in an hour or a day. */
export interface UsageRow {
  readonly workspace_id: string
  /** Empty for the total of the workspace. */
  readonly key_id: string
  /** Whole hours or days since the epoch. */
  readonly bucket: number
  readonly route: string
  readonly code: string
  readonly count: number
}

/**
 * Requests of a key in an hour, and those of the five minutes from :00, :05, … in it; null: none. What was reported late has no minute, so
 * these may add up to less than `count`.
 */
export type HourUsageRow = UsageRow & { readonly [Column in FiveMinutes]: number | null }
export type FiveMinutes = (typeof FIVE_MINUTES)[number]
export const FIVE_MINUTES = [
  ...(['count_00', 'count_05', 'count_10', 'count_15', 'count_20', 'count_25'] as const),
  ...(['count_30', 'count_35', 'count_40', 'count_45', 'count_50', 'count_55'] as const),
] as const

/** The last report of a gateway that was stored. */
interface UsageGatewayRow {
  readonly gateway: string
  readonly sequence: number
  readonly seen_at_ms: number
}

/** A request with a known key that was not served. */
export interface RefusalRow {
  readonly workspace_id: string
  readonly at_ms: number
  readonly id: string
  readonly key_id: string
  readonly route: string
  readonly code: string
  readonly reason: string
  readonly request_id: string
  readonly address: string
}

/** When refusals of a workspace were last left out. */
interface RefusalGapRow {
  readonly workspace_id: string
  readonly at_ms: number
}

/** A window of a limit that is nearly used up, as gateways reported it. Kept for a day after its end. */
export interface LimitUseRow {
  /** A digest of what identifies it: workspace, key, policy, length, limit and region. */
  readonly id: string
  readonly workspace_id: string
  /** Empty where all keys of the workspace are counted together. */
  readonly key_id: string
  /** Empty for the policies of keys without a plan. */
  readonly plan: string
  readonly policy: string
  /** 0: the calendar month. */
  readonly window_seconds: number
  /** The limit. */
  readonly requests: number
  readonly region: string
  readonly used: number
  /** Of the limit, rounded down. */
  readonly percent: number
  readonly ends_at_ms: number
  readonly reported_at_ms: number
  /** The highest percentage that webhooks got an event of; 0: none. */
  readonly sent_percent: number
  readonly sent_at_ms: number
}

export interface Tables {
  keys: KeyRow
  workspace_plans: WorkspacePlanRow
  outbox: OutboxRow
  regions: RegionRow
  audit: AuditRow
  audit_head: AuditHeadRow
  audit_queue: QueuedAuditRow
  admin_tokens: AdminTokenRow
  idempotent_responses: IdempotentResponseRow
  key_use: KeyUseRow
  sessions: SessionRow
  gateways: GatewayRow
  confirmations: ConfirmationRow
  workspace_webhooks: WorkspaceWebhookRow
  webhook_receivers: WebhookReceiverRow
  webhook_deliveries: DeliveryRow
  signing_secrets: SigningSecretRow
  usage_hours: HourUsageRow
  usage_days: UsageRow
  usage_gateways: UsageGatewayRow
  refusals: RefusalRow
  refusal_gaps: RefusalGapRow
  limit_uses: LimitUseRow
  /** Kysely's own list of what was applied; read to recognise a newer schema. */
  kysely_migration: { readonly name: string }
}
