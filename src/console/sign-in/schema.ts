import { sql } from 'kysely'
import type { CreateTables } from '../platform/database/migrations.ts'

export const sessionTables: CreateTables = (_dialect, text) => [
  sql`create table sessions (
    digest ${text} primary key, subject ${text} not null, person ${text} not null, csrf_secret ${text} not null,
    started_at_ms bigint not null, seen_at_ms bigint not null)`,
  sql`create index sessions_by_subject on sessions (subject)`,
  sql`create index sessions_by_time on sessions (seen_at_ms)`,
]
