import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { compareSchema } from '../../src/console/platform/open-console-database.ts'
import { MIGRATIONS } from '../../src/console/schema.ts'
import { makePartitions } from '../../src/console/usage/reports/rows.ts'
import { startConsole } from '../support/console.ts'
import { fillDatabase, readAll } from '../support/filled-database.ts'
import { metricValue } from '../support/metric-value.ts'
import { openDatabase } from '../support/open-database.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'

const FUNCTION = `create function evil() returns trigger language plpgsql as $$ begin return null; end $$`
/** Runs a statement on a partition of the day, whose name is `%I`. */
const onPartition = (statement: string) => `do $$ declare part text; begin
  select relname into part from pg_class where relname ~ '^usage_hours_[0-9]+$' limit 1;
  execute format('${statement}', part);
end $$`

const CHANGES: readonly (readonly [statement: string, named: string])[] = [
  [
    `${FUNCTION}; create trigger evil before update on keys for each row execute function evil()`,
    'added trigger evil on keys',
  ],
  ['create rule r as on update to keys do instead nothing', 'added rule r on keys'],
  [
    'alter table keys enable row level security; alter table keys force row level security',
    'changed table keys',
  ],
  ['create policy p on keys using (revoked_at_ms is null)', 'added policy p on keys'],
  ['create view v as select 1', 'added table v'],
  ['create materialized view m as select 1', 'added table m'],
  ['create sequence s', 'added table s'],
  [
    'create foreign data wrapper w; create server s foreign data wrapper w; create foreign table f (a text) server s',
    'added table f',
  ],
  ['create index i on keys (upper(name))', 'added index i on keys'],
  ['create unique index u on keys (hint) where version > 1', 'added index u on keys'],
  ['drop index keys_by_hint', 'missing index keys_by_hint on keys'],
  ['drop index keys_by_hint; create index keys_by_hint on keys (hint)', 'changed index keys_by_hint on keys'],
  [
    `update pg_index set indisvalid = false where indexrelid = 'keys_by_hint'::regclass`,
    'changed index keys_by_hint on keys',
  ],
  ['alter table keys alter column version type bigint', 'changed column keys.version'],
  ['alter table keys alter column hint drop not null', 'changed column keys.hint'],
  ['alter table keys alter column name type text collate "POSIX"', 'changed column keys.name'],
  ['alter table keys alter column version set default 2', 'changed column keys.version'],
  ['alter table keys add column x integer generated always as (1) stored', 'added column keys.x'],
  ['alter table keys drop constraint keys_version_check', 'missing constraint keys_version_check on keys'],
  ['alter table audit disable trigger user', 'changed trigger audit_refuses_changes on audit'],
  ['alter table key_use disable trigger all', 'added disabled trigger of a constraint on key_use'],
  ['create table child () inherits (audit)', 'added table child inherited from audit'],
  ['alter table refusals set unlogged', 'changed table refusals'],
  [
    'create or replace function keys_add_use() returns trigger language plpgsql as $$ begin return null; end $$',
    'changed function keys_add_use()',
  ],
  [
    'create trigger t after insert on kysely_migration execute function keys_add_use()',
    'added trigger t on kysely_migration',
  ],
  ['alter function keys_add_use() security definer', 'changed function keys_add_use()'],
  ['alter function keys_add_use() set search_path = pg_temp', 'changed function keys_add_use()'],
  ['create function another(text) returns text language sql return $1', 'added function another(text)'],
  [onPartition('alter table %I set unlogged'), 'added table usage_hours_'],
  [onPartition('alter table %I enable row level security'), 'added table usage_hours_'],
  [
    'create table usage_hours_1 partition of usage_hours for values from (1) to (2) partition by list (key_id)',
    'added table usage_hours_1',
  ],
  [onPartition('create rule r as on insert to %I do instead nothing'), 'added rule r on usage_hours_'],
  [onPartition('alter table %I add check (count < 5)'), 'added constraint usage_hours_'],
]

describe.skipIf(!has(POSTGRES))('a PostgreSQL database', () => {
  let postgres: PostgresServer
  beforeAll(async () => {
    postgres = await PostgresServer.started()
  })
  afterAll(async () => void (await postgres?.stop()))

  async function migrated() {
    const url = await postgres.migratedDatabase()
    const database = await openDatabase(url)
    await makePartitions(database, Date.now())
    return { url, database }
  }

  const change = async (url: string, statement: string) => {
    const database = await openDatabase(url)
    await sql.raw(statement).execute(database.writer)
    await database.close()
  }

  test('with the partitions of the day is as the migrations make it, and the comparison leaves nothing', async () => {
    const { database } = await migrated()
    expect(await compareSchema(database, MIGRATIONS)).toEqual([])
    const { rows } = await sql`select nspname from pg_namespace where nspname like 'postern%'`.execute(
      database.reader,
    )
    expect(rows).toEqual([])
    await database.close()
  })

  test('without the index for parts of texts, which a server may refuse, is as the migrations make it', async () => {
    const { url, database } = await migrated()
    await change(url, 'drop index if exists keys_by_text')
    // As after a column that was there once.
    await change(url, 'alter table keys add column x text; alter table keys drop column x')
    expect(await compareSchema(database, MIGRATIONS)).toEqual([])
    await database.close()
  })

  test.each(CHANGES)('is known to be another one after: %s', async (statement, named) => {
    const { url, database } = await migrated()
    await change(url, statement)
    const found = (await compareSchema(database, MIGRATIONS)).map(
      difference => `${difference.change} ${difference.name}`,
    )
    expect(found.join('\n')).toContain(named)
    await database.close()
  })

  test('with a trigger takes no restore and no copy, gives none, and a console warns of it', async () => {
    const file = join(temporaryDirectory(), 'postern.db')
    await fillDatabase(`sqlite:${file}`, 3)
    const { url, database } = await migrated()
    await database.close()
    const before = await readAll(url)
    await change(url, CHANGES[0]?.[0] ?? '')
    const refused = { code: 65, stderr: expect.stringContaining('added trigger evil on keys') }
    const env = {
      POSTERN_DATABASE_URL: url,
      POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
    }
    expect(
      await runPosternHere(['database', 'restore', file, '--replace', '--without-redis'], env),
    ).toMatchObject(refused)
    expect(await runPosternHere(['database', 'copy', file, url])).toMatchObject(refused)
    const target = join(temporaryDirectory(), 'target.db')
    expect(await runPosternHere(['database', 'copy', url, target])).toMatchObject(refused)
    expect(await readAll(url)).toEqual(before)
    const { log, metrics } = await startConsole({ databaseUrl: url })
    expect(JSON.stringify(log)).toContain('added trigger evil on keys')
    expect(await metricValue(metrics.schemaDifferences, { kind: 'added' })).toBe(2)
  })

  test('whose user may create no schema starts a console, which says that it could not compare', async () => {
    const { url, database } = await migrated()
    await sql
      .raw(`create role app login password 'app';
      grant usage on schema public to app; grant all on all tables in schema public to app`)
      .execute(database.writer)
    await sql
      .raw(`do $$ declare t text; begin
      for t in select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') loop
        execute format('alter table %I owner to app', t);
      end loop; end $$`)
      .execute(database.writer)
    await database.close()
    const asApp = new URL(url)
    asApp.username = 'app'
    asApp.password = 'app'
    const { log, metrics } = await startConsole({ databaseUrl: asApp.href })
    expect(JSON.stringify(log)).toContain('database schema could not be compared')
    expect(await metricValue(metrics.schemaDifferences, { kind: 'unknown' })).toBe(1)
  })
})
