import { randomBytes } from 'node:crypto'
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import {
  compareSchemas,
  createSchema,
  type Migrations,
  type SchemaDifference,
  type SchemaObject,
} from '../migrations.ts'
import type { Tables } from '../tables.ts'

/** Kysely's own tables, which no migration makes. Triggers on them count. */
const OF_KYSELY = ['kysely_migration', 'kysely_migration_lock']
/** The server may refuse its extension. */
const OPTIONAL_INDEX = 'index keys_by_text on keys'

/** Changes nothing. Needs the right to create schemas in the database. */
export function comparePostgresSchema(
  connection: Kysely<Tables>,
  migrations: Migrations,
): Promise<SchemaDifference[]> {
  const transaction = connection.transaction().setAccessMode('read write')
  return transaction.execute(tx => compareIn(tx, migrations))
}

/**
 * Compares the schema with what the migrations make in a schema of another name, which is rolled back. Leaves the transaction as it was,
 * also where it throws.
 */
async function compareIn(tx: Transaction<Tables>, migrations: Migrations): Promise<SchemaDifference[]> {
  await sql`savepoint compare_schema`.execute(tx)
  try {
    const actual = await readObjects(tx)
    const name = `postern_expected_${randomBytes(6).toString('hex')}`
    await sql`create schema ${sql.id(name)}`.execute(tx)
    // The rest of the path has the operators of extensions.
    await sql`select set_config('search_path', ${name} || ', ' || current_setting('search_path'), true)`.execute(
      tx,
    )
    await createSchema(tx, 'postgres', migrations)
    const expected = await readObjects(tx)
    const hasTextIndex = actual.some(object => object.name === OPTIONAL_INDEX)
    return compareSchemas(
      expected.filter(object => hasTextIndex || object.name !== OPTIONAL_INDEX),
      actual,
    )
  } finally {
    await sql`rollback to savepoint compare_schema`.execute(tx)
  }
}

async function readObjects(tx: Transaction<Tables>): Promise<SchemaObject[]> {
  const { rows } = await sql<SchemaObject>`
    with ${sql.join(NAMED, sql`, `)}
    ${sql.join(OBJECTS, sql` union all `)}`.execute(tx)
  return rows
}

/**
 * `ours`: what is in the schema of the table `keys`, without what belongs to an extension. `parts`: the partitions of the
 * tables of counts, whose names and number depend on the date.
 */
const NAMED: readonly RawBuilder<unknown>[] = [
  sql`home as (select relnamespace as oid from pg_class where oid = to_regclass('keys'))`,
  sql`ours as (
    select c.* from pg_class as c join home on home.oid = c.relnamespace
    where not exists (
      select from pg_depend where classid = 'pg_class'::regclass and objid = c.oid and deptype = 'e'))`,
  sql`parts as (
    select ours.oid, relname from ours join pg_inherits on inhrelid = ours.oid
    where inhparent in (to_regclass('usage_hours'), to_regclass('usage_days'))
      and relkind = 'r' and relispartition and relpersistence = 'p' and not relrowsecurity)`,
  sql`relations as (
    select * from ours
    where relkind in ('r', 'p', 'v', 'm', 'f', 'S') and oid not in (select oid from parts))`,
  sql`tables as (select oid, relname from relations union all select oid, relname from parts)`,
]

const isOfKysely = sql`relname in (${sql.join(OF_KYSELY)})`

/** Each selects the name and definition of objects. The pretty form names nothing of the schema that is first in the path. */
const OBJECTS: readonly RawBuilder<unknown>[] = [
  sql`select 'table ' || relname as name, concat_ws(' ', relkind, relpersistence, relrowsecurity,
      relforcerowsecurity, pg_get_partkeydef(oid), case when relkind in ('v', 'm') then pg_get_viewdef(oid, true) end) as definition
    from relations where not ${isOfKysely}`,
  sql`select 'column ' || relname || '.' || attname, concat_ws(' ', format_type(atttypid, atttypmod),
      (select collname from pg_collation where oid = attcollation), attnotnull, attidentity, attgenerated,
      (select pg_get_expr(adbin, adrelid, true) from pg_attrdef where adrelid = attrelid and adnum = attnum))
    from relations join pg_attribute on attrelid = relations.oid
    where relkind in ('r', 'p') and attnum > 0 and not attisdropped and not ${isOfKysely}`,
  // A newer PostgreSQL has constraints for columns that are not null (n), which the columns state.
  sql`select 'constraint ' || conname || ' on ' || relname,
      concat_ws(' ', pg_get_constraintdef(pg_constraint.oid, true), convalidated, condeferrable)
    from tables join pg_constraint on conrelid = tables.oid
    where contype not in ('n', 't') and conparentid = 0 and not ${isOfKysely}
      and not (contype = 'c' and coninhcount > 0)`,
  sql`select 'index ' || c.relname || ' on ' || tables.relname,
      concat_ws(' ', pg_get_indexdef(indexrelid, 0, true), indisvalid, indisunique)
    from tables join pg_index on indrelid = tables.oid join pg_class as c on c.oid = indexrelid
    where not c.relispartition and not (tables.relname in (${sql.join(OF_KYSELY)}) and indisprimary)`,
  sql`select 'trigger ' || tgname || ' on ' || relname, concat_ws(' ', pg_get_triggerdef(pg_trigger.oid, true), tgenabled)
    from tables join pg_trigger on tgrelid = tables.oid where not tgisinternal and tgparentid = 0`,
  sql`select distinct 'disabled trigger of a constraint on ' || relname, ''
    from tables join pg_trigger on tgrelid = tables.oid where tgisinternal and tgenabled <> 'O'`,
  sql`select 'rule ' || rulename || ' on ' || relname, concat_ws(' ', pg_get_ruledef(pg_rewrite.oid, true), ev_enabled)
    from tables join pg_rewrite on ev_class = tables.oid where rulename <> '_RETURN'`,
  sql`select 'policy ' || polname || ' on ' || relname, concat_ws(' ', polcmd, polpermissive,
      pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
    from tables join pg_policy on polrelid = tables.oid`,
  // Its rows are also those of the table.
  sql`select 'table ' || inhrelid::regclass || ' inherited from ' || relname, ''
    from relations join pg_inherits on inhparent = relations.oid
    where relkind in ('r', 'p') and inhrelid not in (select oid from parts)`,
  sql`select 'function ' || proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
      concat_ws(' ', prokind, (select lanname from pg_language where oid = prolang), format_type(prorettype, null),
        prosecdef, provolatile, proconfig, prosrc)
    from pg_proc as p join home on home.oid = pronamespace
    where not exists (
      select from pg_depend where classid = 'pg_proc'::regclass and objid = p.oid and deptype = 'e')`,
]
