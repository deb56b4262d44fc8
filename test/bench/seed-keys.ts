import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { ulid } from 'ulid'
import type { Database } from '../../src/console/platform/database/database.ts'

const DAY_MS = 86_400_000
const ROWS_AT_ONCE = 5000
const WORDS = [
  'build',
  'deploy',
  'report',
  'mirror',
  'backup',
  'nightly',
  'import',
  'search',
  'billing',
  'audit',
]
const COLUMNS = [
  'id',
  'digest',
  'workspace_id',
  'name',
  'scopes',
  'hint',
  'created_at_ms',
  'created_by',
  'expires_at_ms',
  'revoked_at_ms',
  'suspended_at_ms',
  'description',
  'replaced_by',
  'version',
  'changed_at_ms',
  'last_used_at_ms',
] as const

export interface Population {
  readonly keys: number
  readonly workspaces: number
  /** How many of the keys are in one workspace, `ws_large`; the others have equal shares. */
  readonly inLargest: number
  readonly nowMs: number
}

/** The name of three keys, to search for. */
export const RARE_NAME = 'Zebra crossing'

/** Writes keys as they look after some years, without audit entries; the same ones each time, ids aside. */
export async function seedKeys({ writer, dialect }: Database, population: Population): Promise<void> {
  const random = generator()
  const values =
    dialect === 'sqlite'
      ? (index: number) => sql.raw(`value ->> ${index}`)
      : (index: number) =>
          sql.raw(`(value ->> ${index})${/_ms|version/.test(COLUMNS[index] ?? '') ? '::bigint' : ''}`)
  const each = dialect === 'sqlite' ? sql.raw('json_each') : sql.raw('json_array_elements')
  const columns = sql.raw(COLUMNS.slice(0, -1).join(', '))
  const selected = sql.join(COLUMNS.slice(0, -1).map((_, index) => values(index)))
  for (let from = 0; from < population.keys; from += ROWS_AT_ONCE) {
    const count = Math.min(ROWS_AT_ONCE, population.keys - from)
    const rows = JSON.stringify(
      Array.from({ length: count }, (_, at) => rowOf(from + at, population, random)),
    )
    const list = dialect === 'sqlite' ? sql`${each}(${rows})` : sql`${each}(${rows}::json) as rows (value)`
    await writer.transaction().execute(async tx => {
      if (dialect === 'postgres') await sql`set local statement_timeout = 0`.execute(tx)
      await sql`insert into keys (${columns}) select ${selected} from ${list} where true`.execute(tx)
      await sql`update key_use set last_used_at_ms = used.at_ms
        from (select ${values(0)} as id, ${values(COLUMNS.length - 1)} as at_ms from ${list}) as used
        where key_id = used.id`.execute(tx)
    })
  }
  await sql`analyze`.execute(writer)
}

function rowOf(index: number, { inLargest, workspaces, nowMs }: Population, random: () => number): unknown[] {
  const createdAtMs = Math.floor(nowMs - random() * 270 * DAY_MS)
  const ownExpiryMs = createdAtMs + 90 * DAY_MS
  const isReplaced = random() < 0.3
  const id = `key_${ulid(createdAtMs, random)}`
  const word = () => WORDS[Math.floor(random() * WORDS.length)]
  return [
    id,
    createHash('sha256').update(id).digest('hex'),
    index < inLargest ? 'ws_large' : `ws_${index % (workspaces - 1)}`,
    index % 400_000 === 7 ? RARE_NAME : `${word()} ${word()} ${index % 1000}`,
    random() < 0.5 ? '["files:read"]' : '["files:read","workspace:read"]',
    `wsk_…${id.slice(-4)}`,
    createdAtMs,
    'admin-token',
    isReplaced ? Math.floor(createdAtMs + random() * 89 * DAY_MS) : ownExpiryMs,
    random() < 0.1 ? Math.min(ownExpiryMs, nowMs) : null,
    random() < 0.001 ? createdAtMs : null,
    random() < 0.3 ? `${word()} of the ${word()} team` : null,
    isReplaced ? id : null,
    1,
    createdAtMs,
    random() < 0.7 ? Math.floor(createdAtMs + random() * (nowMs - createdAtMs)) : 0,
  ]
}

/** Mulberry32: the same numbers in each run. */
function generator(): () => number {
  let state = 1
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
