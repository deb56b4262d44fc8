import { sql } from 'kysely'
import { appendAfter, CHAIN_START } from '../../src/console/platform/audit/chain.ts'
import type { Database } from '../../src/console/platform/database/database.ts'
import { seedKeys } from '../bench/seed-keys.ts'
import { trustIn } from './audit-trust.ts'
import { openDatabase } from './open-database.ts'

const HOUR_MS = 3_600_000
const HOURS_OF_USE = 48
export const LARGE_KEYS = 100_000
export const LARGE_WORKSPACES = ['ws_large', ...Array.from({ length: 999 }, (_, number) => `ws_${number}`)]

/** Fills a database with 100,000 keys in 1,000 workspaces, 40,000 of them in `ws_large`, the audit entries of their issue and revocation, and counts of their use. */
export async function fillLarge(url: string, nowMs: number): Promise<void> {
  const database = await openDatabase(url)
  const workspaces = LARGE_WORKSPACES.length
  if (database.dialect === 'sqlite') {
    // All of it in memory, and no wait for the disk: random keys would otherwise read and write each page many times.
    for (const pragma of ['cache_size = -1000000', 'synchronous = off', 'wal_autocheckpoint = 0']) {
      await sql`pragma ${sql.raw(pragma)}`.execute(database.writer)
    }
  }
  await seedKeys(database, { keys: LARGE_KEYS, workspaces, inLargest: 40_000, nowMs })
  // The console never analyzes an SQLite file.
  if (database.dialect === 'sqlite') await sql`delete from sqlite_stat1`.execute(database.writer)
  await addAudit(database)
  await addUse(database, nowMs)
  await database.close()
}

/** All entries that a console would have written: one without a MAC is shown in no list. */
async function addAudit({ writer, dialect }: Database): Promise<void> {
  const detail = JSON.stringify({ name: 'build', scopes: ['files:read'], from: '192.0.2.1', requestId: 'r' })
  const { rows: keys } = await sql<IssuedKey>`
    select id, workspace_id, created_at_ms, revoked_at_ms is not null as is_revoked, name from keys order by id`.execute(
    writer,
  )
  const entriesOf = (action: string, suffix: string, some: readonly IssuedKey[]) =>
    some.map(key => ({
      id: `audit_${key.id.slice('key_'.length, -1)}${suffix}`,
      workspace_id: key.workspace_id,
      at_ms: Number(key.created_at_ms),
      actor: key.name.includes('deploy') ? 'token:tok_1' : 'admin-token',
      action,
      key_id: key.id,
      detail,
    }))
  const entries = [
    ...entriesOf('key.issued', '1', keys),
    ...entriesOf(
      'key.revoked',
      '2',
      keys.filter(key => Boolean(key.is_revoked)),
    ),
  ]
  const target = { dialect, audit: trustIn() }
  await writer.transaction().execute(tx => appendAfter(tx, CHAIN_START, entries, target))
}

interface IssuedKey {
  readonly id: string
  readonly workspace_id: string
  readonly created_at_ms: number
  readonly is_revoked: boolean | 0 | 1
  readonly name: string
}

/** PostgreSQL would need partitions. */
async function addUse({ writer, dialect }: Database, nowMs: number): Promise<void> {
  if (dialect === 'postgres') return
  const codes = sql`(select 'ok' as code union all select 'scope_missing')`
  const busy = sql`(select key_id from key_use where workspace_id = 'ws_large' order by last_used_at_ms desc limit 500)`
  const firstHour = Math.floor(nowMs / HOUR_MS) - HOURS_OF_USE + 1
  const hours = Array.from({ length: HOURS_OF_USE }, (_, place) => firstHour + place)
  const owners = sql`(
    select value as workspace_id, '' as key_id from json_each(${JSON.stringify(LARGE_WORKSPACES)})
    union all select 'ws_large', key_id from ${busy})`
  await sql`
    insert into usage_hours (workspace_id, key_id, bucket, route, code, count)
    select workspace_id, key_id, hours.value, 'files', code, 5
    from ${owners} cross join json_each(${JSON.stringify(hours)}) as hours cross join ${codes}`.execute(
    writer,
  )
}
