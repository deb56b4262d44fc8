import type { Tables } from '../platform/database/tables.ts'

/** Kysely's own list: each database has it from its own migrations. */
type CopiedTable = Exclude<keyof Tables, 'kysely_migration'>

/**
 * Every table with the columns of its primary key. A table or column that is missing here, or not in `Tables`, does not
 * compile: none is forgotten in a copy. `keys` comes first: its triggers add rows to `key_use`, which its own rows then
 * replace.
 */
const PRIMARY_KEYS: { readonly [Table in CopiedTable]: readonly (keyof Tables[Table] & string)[] } = {
  keys: ['id'],
  outbox: ['digest', 'version'],
  region_outbox: ['region', 'digest', 'version'],
  regions: ['name'],
  audit: ['id'],
  audit_head: ['id'],
  audit_queue: ['id'],
  admin_tokens: ['id'],
  answers: ['id'],
  key_use: ['key_id'],
  sessions: ['digest'],
  gateways: ['id'],
  confirmations: ['digest', 'version', 'gateway_id'],
  workspace_webhooks: ['workspace_id'],
  webhook_receivers: ['receiver'],
  webhook_deliveries: ['receiver', 'id'],
  signing_secrets: ['fingerprint'],
  usage_hours: ['workspace_id', 'key_id', 'bucket', 'route', 'code'],
  usage_days: ['workspace_id', 'key_id', 'bucket', 'route', 'code'],
  usage_gateways: ['gateway'],
  refusals: ['workspace_id', 'at_ms', 'id'],
  refusal_gaps: ['workspace_id'],
}

export interface CopiedTableKey {
  readonly table: string
  readonly columns: readonly string[]
}

export const COPIED_TABLES: readonly CopiedTableKey[] = Object.entries(PRIMARY_KEYS).map(
  ([table, columns]) => ({ table, columns }),
)
