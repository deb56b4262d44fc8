import { sql } from 'kysely'
import {
  announcingTables,
  auditTables,
  keyTables,
  sessionTables,
  tokenTables,
  usageTables,
  webhookTables,
} from './first-tables.ts'
import { type CreateTables, createsTables, type Migrations } from './platform/database/migrations.ts'

/** The plans of keys, and of workspaces. */
const planTables: CreateTables = (_, text) => [
  sql`alter table keys add column plan ${text}`,
  sql`create table workspace_plans (workspace_id ${text} primary key, plan ${text} not null)`,
]

/** Windows of limits that are nearly used up. The index of keys says which plans of a workspace are in use. */
const limitTables: CreateTables = (_, text) => [
  sql`create table limit_uses (
    id ${text} primary key, workspace_id ${text} not null, key_id ${text} not null, plan ${text} not null,
    policy ${text} not null, window_seconds integer not null, requests bigint not null, region ${text} not null,
    used bigint not null, percent integer not null, ends_at_ms bigint not null, reported_at_ms bigint not null,
    sent_percent integer not null, sent_at_ms bigint not null)`,
  sql`create index limit_uses_by_percent on limit_uses (percent, id)`,
  sql`create index workspace_limit_uses_by_percent on limit_uses (workspace_id, percent, id)`,
  sql`create index limit_uses_by_end on limit_uses (ends_at_ms)`,
  sql`create index keys_by_plan on keys (workspace_id, plan) where plan is not null`,
]

/**
 * The tables of the console. A release only adds migrations, and each only adds tables, columns and indexes: consoles of the
 * release before go on working on them.
 */
export const MIGRATIONS: Migrations = {
  '0001_tables': createsTables([
    keyTables,
    announcingTables,
    auditTables,
    tokenTables,
    sessionTables,
    usageTables,
    webhookTables,
  ]),
  '0002_plans': createsTables([planTables]),
  '0003_limits': createsTables([limitTables]),
}
