import { type Kysely, sql } from 'kysely'
import { openPostgresForCopy } from '../../../src/console/platform/database/postgres/database.ts'
import type { Tables } from '../../../src/console/platform/database/tables.ts'
import { MIGRATIONS } from '../../../src/console/schema.ts'

const ROWS_AT_ONCE = 1_000_000
const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

export interface Population {
  readonly keys: number
  readonly workspaces: number
  /** How many of the keys are in one workspace, `ws_large`; the others have equal shares. */
  readonly inLargest: number
  readonly nowMs: number
  /** Whether revoked and replaced keys count as changed: a region that is added gets their changes. */
  readonly changed?: boolean
}

/**
 * Writes keys inside PostgreSQL, so that ten million take minutes: without indexes, which are built afterwards. They look
 * like those of `test/bench/seed-keys.ts`; a digest is the SHA-256 of its key's id.
 * @param url of an empty database, as a superuser
 */
export async function fillKeys(
  url: string,
  population: Population,
  progress: (text: string) => void = () => {},
): Promise<void> {
  const database = await openPostgresForCopy(url, MIGRATIONS)
  try {
    // For this connection, the only one: no trigger fires, no foreign key is checked.
    await sql`set session_replication_role = replica`.execute(database)
    const rebuild = await dropIndexes(database)
    for (let from = 0; from < population.keys; from += ROWS_AT_ONCE) {
      await insertKeys(database, from, population)
      progress(`${Math.min(from + ROWS_AT_ONCE, population.keys)} keys written`)
    }
    for (const statement of rebuild) {
      await sql.raw(statement).execute(database)
      progress(statement)
    }
    await sql`vacuum (analyze) keys, key_use`.execute(database)
  } finally {
    await database.destroy()
  }
}

/** @returns statements that create them again, in order */
async function dropIndexes(database: Kysely<Tables>): Promise<string[]> {
  // Foreign keys first: they depend on the primary key of the other table.
  const constraints = await sql<{ drop: string; create: string }>`
    select format('alter table %s drop constraint %I', conrelid::regclass, conname) as drop,
      format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as create
    from pg_constraint where conrelid in ('keys'::regclass, 'key_use'::regclass) and contype in ('p', 'u', 'f')
    order by contype`.execute(database)
  const indexes = await sql<{ drop: string; create: string }>`
    select format('drop index %I', indexname) as drop, indexdef as create from pg_indexes
    where tablename in ('keys', 'key_use')
      and indexname not in (select conname from pg_constraint)`.execute(database)
  for (const { drop } of [...constraints.rows, ...indexes.rows]) await sql.raw(drop).execute(database)
  return [...constraints.rows.toReversed(), ...indexes.rows].map(({ create }) => create)
}

async function insertKeys(
  database: Kysely<Tables>,
  from: number,
  { keys, workspaces, inLargest, nowMs, changed = true }: Population,
): Promise<void> {
  const until = Math.min(from + ROWS_AT_ONCE, keys) - 1
  const digit = (shift: number) => `substr('${CROCKFORD}', ((created >> ${shift}) & 31)::int + 1, 1)`
  const time = sql.raw(Array.from({ length: 10 }, (_, place) => digit(45 - 5 * place)).join(' || '))
  const word = sql`(array['build','deploy','report','mirror','backup','nightly','import','search','billing','audit'])[1 + floor(random() * 10)::int]`
  await sql`
    with drawn as (
      select n, ${nowMs}::bigint - floor(random() * 270 * 86400000)::bigint as created,
        random() < 0.3 as replaced, random() < 0.1 as revoked, random() as part, random() as used
      from generate_series(${from}::bigint, ${until}::bigint) as n),
    named as (select *, 'key_' || ${time} || upper(substr(md5(n::text), 1, 16)) as id from drawn),
    written as (
      insert into keys (id, digest, workspace_id, name, scopes, hint, created_at_ms, created_by, expires_at_ms,
        revoked_at_ms, suspended_at_ms, description, replaced_by, version, changed_at_ms)
      select id, encode(sha256(id::bytea), 'hex'),
        case when n < ${inLargest}::bigint then 'ws_large' else 'ws_' || (n % ${workspaces - 1}::bigint) end,
        case when n % 4000000 = 7 then 'Zebra crossing' else ${word} || ' ' || ${word} || ' ' || (n % 1000) end,
        case when n % 2 = 0 then '["files:read"]' else '["files:read","workspace:read"]' end,
        'wsk_…' || right(id, 4), created, 'admin-token',
        created + case when replaced then floor(part * 89 * 86400000)::bigint else 90 * 86400000::bigint end,
        case when revoked then least(created + 90 * 86400000::bigint, ${nowMs}::bigint) end,
        case when n % 1000 = 1 then created end,
        case when n % 10 < 3 then ${word} || ' of the ' || ${word} || ' team' end,
        case when replaced then id end, case when ${changed}::boolean and (revoked or replaced) then 2 else 1 end, created
      from named)
    insert into key_use (key_id, workspace_id, last_used_at_ms)
    select id, case when n < ${inLargest}::bigint then 'ws_large' else 'ws_' || (n % ${workspaces - 1}::bigint) end,
      case when used < 0.7 then created + floor(part * (${nowMs}::bigint - created))::bigint else 0 end
    from named`.execute(database)
}
