import {
  announcingTables,
  auditTables,
  keyTables,
  sessionTables,
  tokenTables,
  usageTables,
  webhookTables,
} from './first-tables.ts'
import { createsTables, type Migrations } from './platform/database/migrations.ts'

/**
 * The tables of the console. A release only adds migrations, and each only adds tables, columns and indexes: consoles of the
 * release before go on working on them.
 */
export const MIGRATIONS: Migrations = {
  '0001_first_tables': createsTables([
    keyTables,
    announcingTables,
    auditTables,
    tokenTables,
    sessionTables,
    usageTables,
    webhookTables,
  ]),
}
