import { sql } from 'kysely'
import type { CreateTables } from '../platform/database/migrations.ts'

/** Webhooks that workspaces have set, receivers, and deliveries to them. The operator's webhook is in the settings. */
export const webhookTables: CreateTables = (_dialect, text) => [
  sql`create table workspace_webhooks (
    workspace_id ${text} primary key, url ${text} not null, secret ${text} not null, created_at_ms bigint not null,
    created_by ${text} not null)`,
  sql`create table webhook_receivers (
    receiver ${text} primary key, failures integer not null, paused_until_ms bigint not null,
    claimed_until_ms bigint not null, attempted_at_ms bigint not null)`,
  // The operator: see `OPERATOR` in delivery-rows.ts.
  sql`insert into webhook_receivers values ('', 0, 0, 0, 0)`,
  sql`create table webhook_deliveries (
    receiver ${text} not null, id ${text} not null, workspace_id ${text} not null, key_id ${text} not null,
    type ${text} not null, deduplication_key ${text} not null, at_ms bigint not null, body ${text} not null,
    attempts integer not null, due_at_ms bigint, delivered_at_ms bigint, last_status integer, last_error ${text},
    primary key (receiver, id), unique (receiver, deduplication_key))`,
  sql`create index webhook_deliveries_by_workspace on webhook_deliveries (receiver, workspace_id, id)`,
  sql`create index webhook_deliveries_by_time on webhook_deliveries (at_ms)`,
  // Partial: most events were delivered.
  sql`create index webhook_deliveries_by_due on webhook_deliveries (receiver, due_at_ms, id)
    where due_at_ms is not null`,
]
