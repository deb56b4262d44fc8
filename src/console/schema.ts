import {
  announcingTables,
  auditTables,
  keyTables,
  sessionTables,
  tokenTables,
  usageTables,
  webhookTables,
} from './first-tables.ts'
import { type Migrations, migrationOf } from './platform/database/migrations.ts'

/**
 * The tables of the console. A release only adds migrations, and each only adds tables, columns and indexes: consoles of the
 * release before go on working on them. The next one, with a column for a text of a key, would be
 * `'0002_owner': migrationOf((_dialect, text) => [sql`alter table keys add column owner ${text}`])`.
 */
export const MIGRATIONS: Migrations = {
  '0001_first_tables': migrationOf(
    keyTables,
    announcingTables,
    auditTables,
    tokenTables,
    sessionTables,
    usageTables,
    webhookTables,
  ),
}
