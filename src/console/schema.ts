import { announcingTables } from './announcing/schema.ts'
import { auditTables } from './audit/schema.ts'
import { keyTables } from './keys/schema.ts'
import { createsTables, type Migrations } from './platform/database/migrations.ts'
import { sessionTables } from './sign-in/schema.ts'
import { tokenTables } from './tokens/schema.ts'
import { usageTables } from './usage/schema.ts'
import { webhookTables } from './webhooks/schema.ts'

/**
 * The tables of the console, each in the folder of its capability. A release only adds migrations, and each only adds tables,
 * columns and indexes: consoles of the release before go on working on them.
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
}
