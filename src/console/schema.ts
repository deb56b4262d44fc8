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
}
