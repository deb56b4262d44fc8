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
}

/** A committed change that has not been announced yet. */
export interface OutboxRow {
  readonly digest: string
  readonly version: number
  /** When it was committed. */
  readonly at_ms: number
}

export interface Tables {
  keys: KeyRow
  outbox: OutboxRow
  /** Kysely's own list of what was applied; read to recognise a newer schema. */
  kysely_migration: { readonly name: string }
}
