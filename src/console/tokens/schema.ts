import { sql } from 'kysely'
import type { CreateTables } from '../platform/database/migrations.ts'

export const tokenTables: CreateTables = (_dialect, text) => [
  sql`create table admin_tokens (
    id ${text} primary key, digest ${text} not null unique, name ${text} not null, hint ${text} not null,
    permissions ${text} not null, workspaces ${text}, created_at_ms bigint not null, created_by ${text} not null,
    expires_at_ms bigint not null, revoked_at_ms bigint, last_used_at_ms bigint)`,
]
