/** Rows as the database holds them; times are milliseconds since the epoch. */
export interface KeyRow {
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
  readonly rotated_from: string | null
  readonly replaced_by: string | null
  readonly version: number
  /** When this version was committed. */
  readonly changed_at_ms: number
}

/** A committed change that has not been announced yet. */
export interface OutboxRow {
  readonly digest: string
  readonly version: number
  /** When it was committed. */
  readonly at_ms: number
  /** The console that is announcing it, and until when the others leave it alone. */
  readonly claimed_by: string
  readonly claimed_until_ms: number
}

/** Rows are added, and never changed or deleted: the database itself refuses. */
export interface AuditRow {
  /** Grows with time: the order of the entries. */
  readonly id: string
  readonly workspace_id: string
  readonly at_ms: number
  readonly actor: string
  readonly action: string
  readonly key_id: string
  /** A JSON object. */
  readonly detail: string
}

/** What was answered to a request that carried an Idempotency-Key. Nothing of what the caller sent is in it. */
export interface AnswerRow {
  /** SHA-256 of who asked and the Idempotency-Key. */
  readonly id: string
  /** SHA-256 of what was asked. */
  readonly request: string
  /** A JSON object: the records as they were answered, without the secret. */
  readonly outcome: string
  readonly at_ms: number
}

/** Apart from the record: that a key is used is no change to it. */
export interface KeyUseRow {
  readonly key_id: string
  readonly last_used_at_ms: number
}

/** Somebody's being signed in. Whoever reads this table cannot be them: only the digest of what they show is in it. */
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

/** A gateway that told of itself. */
export interface GatewayRow {
  readonly id: string
  /** For people. */
  readonly name: string
  readonly seen_at_ms: number
  /** When it was last known to trust nothing that it had learnt before. */
  readonly deaf_at_ms: number
}

/** That a gateway has applied a change. */
export interface ConfirmationRow {
  readonly digest: string
  readonly version: number
  readonly gateway_id: string
  readonly at_ms: number
}

/** What is told to the webhook, and what became of it. */
export interface NoticeRow {
  readonly id: string
  readonly workspace_id: string
  readonly key_id: string
  readonly type: string
  readonly occasion: string
  readonly at_ms: number
  readonly body: string
  readonly attempts: number
  /** When to send it, or until when a console is sending it; null where that is over. */
  readonly due_at_ms: number | null
  readonly delivered_at_ms: number | null
  readonly last_status: number | null
  readonly last_error: string | null
}

export interface Tables {
  keys: KeyRow
  outbox: OutboxRow
  audit: AuditRow
  answers: AnswerRow
  key_use: KeyUseRow
  sessions: SessionRow
  gateways: GatewayRow
  confirmations: ConfirmationRow
  notices: NoticeRow
  /** Kysely's own list of what was applied; read to recognise a newer schema. */
  kysely_migration: { readonly name: string }
}
