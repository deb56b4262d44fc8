import { sql } from 'kysely'
import type { Database } from '../../src/control/registry/database/database.ts'
import { openDatabase } from '../../src/control/registry/database/open-database.ts'
import { seedKeys } from '../bench/seed-keys.ts'

const HOUR_MS = 3_600_000
const HOURS_OF_USE = 48
export const LARGE_KEYS = 100_000
export const LARGE_WORKSPACES = ['ws_large', ...Array.from({ length: 999 }, (_, number) => `ws_${number}`)]

/** Fills a database with 100,000 keys in 1,000 workspaces, 40,000 of them in `ws_large`, two audit entries for each, and counts of their use. */
export async function fillLarge(url: string, nowMs: number): Promise<void> {
  const database = await openDatabase(url)
  const workspaces = LARGE_WORKSPACES.length
  await seedKeys(database, { keys: LARGE_KEYS, workspaces, inLargest: 40_000, nowMs })
  // The console never analyzes an SQLite file.
  if (database.dialect === 'sqlite') await sql`delete from sqlite_stat1`.execute(database.writer)
  await addAudit(database)
  await addUse(database, nowMs)
  await database.close()
}

async function addAudit({ writer }: Database): Promise<void> {
  const detail = JSON.stringify({ name: 'build', scopes: ['files:read'], from: '192.0.2.1', requestId: 'r' })
  for (const [action, suffix, place] of [
    ['key.issued', '1', 0],
    ['key.revoked', '2', LARGE_KEYS],
  ] as const) {
    const [from, shift] = [sql.lit(place), sql.lit(suffix)]
    await sql`
      insert into audit (id, workspace_id, at_ms, actor, action, key_id, detail, sequence, hash)
      select 'audit_' || substr(id, 5, 25) || ${shift}, workspace_id, created_at_ms,
        case when version = 1 and name like '%deploy%' then 'token:tok_1' else 'admin-token' end,
        ${sql.lit(action)}, id, ${sql.lit(detail)}, ${from} + row_number() over (order by id), ${shift} || digest
      from keys where true on conflict do nothing`.execute(writer)
  }
  await sql`update audit_head set sequence = (select max(sequence) from audit)`.execute(writer)
}

/** PostgreSQL would need partitions. */
async function addUse({ writer, dialect }: Database, nowMs: number): Promise<void> {
  if (dialect === 'postgres') return
  const codes = sql`(select 'ok' as code union all select 'scope_missing')`
  const busy = sql`(select key_id from key_use where workspace_id = 'ws_large' order by last_used_at_ms desc limit 500)`
  for (let hour = 0; hour < HOURS_OF_USE; hour++) {
    const bucket = sql.lit(Math.floor(nowMs / HOUR_MS) - hour)
    await sql`
      insert into usage_hours (workspace_id, key_id, bucket, route, code, count)
      select workspace_id, '', ${bucket}, 'files', code, 5 from (select distinct workspace_id from keys), ${codes}
      union all
      select 'ws_large', key_id, ${bucket}, 'files', code, 5 from ${busy}, ${codes}`.execute(writer)
  }
}
