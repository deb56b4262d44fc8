import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Dialect } from '../../platform/database/database.ts'

/** What lists and searches over all keys need. It only adds: a console of the release before goes on working. */
export async function addSearch(database: Kysely<unknown>, dialect: Dialect): Promise<void> {
  const texts = dialect === 'sqlite' ? TEXT_INDEX_OF_SQLITE : TEXT_INDEX_OF_POSTGRES
  const uses = dialect === 'sqlite' ? USES_IN_SQLITE : USES_IN_POSTGRES
  for (const statement of [...uses, ...FILL_USES, ...INDEXES, ...texts]) await statement.execute(database)
}

const INDEXES: readonly RawBuilder<unknown>[] = [
  sql`create index keys_by_creation on keys (created_at_ms, id)`,
  sql`create index workspace_keys_by_creation on keys (workspace_id, created_at_ms, id)`,
  sql`create index keys_by_expiry_and_id on keys (expires_at_ms, id)`,
  sql`drop index keys_by_expiry`,
  // With all that decides the state, so that counting reads the index alone.
  sql`create index workspace_keys_by_expiry
    on keys (workspace_id, expires_at_ms, id, revoked_at_ms, suspended_at_ms, replaced_by)`,
  sql`create index keys_by_name on keys (name, id)`,
  sql`create index workspace_keys_by_name on keys (workspace_id, name, id)`,
  // Partial: states that few keys are in.
  sql`create index keys_revoked on keys (workspace_id, id) where revoked_at_ms is not null`,
  sql`create index keys_suspended on keys (workspace_id, id)
    where suspended_at_ms is not null and revoked_at_ms is null`,
  sql`create index keys_replaced on keys (expires_at_ms, workspace_id, id)
    where replaced_by is not null and revoked_at_ms is null`,
  sql`create index keys_by_use on key_use (last_used_at_ms, key_id)`,
  sql`create index workspace_keys_by_use on key_use (workspace_id, last_used_at_ms, key_id)`,
]

/** After the triggers, which lock the table against other consoles: no key is left out. */
const FILL_USES = [
  sql`insert into key_use (key_id, workspace_id, last_used_at_ms)
    select id, workspace_id, 0 from keys where true
    on conflict (key_id) do update set workspace_id = excluded.workspace_id`,
]

const USES_IN_SQLITE = [
  sql`alter table key_use add column workspace_id text`,
  sql`create trigger keys_add_use after insert on keys begin
    insert into key_use (key_id, workspace_id, last_used_at_ms) values (new.id, new.workspace_id, 0);
  end`,
]

const USES_IN_POSTGRES = [
  sql`alter table key_use add column workspace_id text collate "C"`,
  sql`create function keys_add_use() returns trigger language plpgsql as $$ begin
    insert into key_use (key_id, workspace_id, last_used_at_ms) values (new.id, new.workspace_id, 0);
    return null;
  end $$`,
  sql`create trigger keys_add_use after insert on keys for each row execute function keys_add_use()`,
]

/**
 * Trigrams of the searched texts, without a copy of them. Keys get a number of their own: VACUUM may change the row ids of
 * a table with a text key.
 */
const TEXT_INDEX_OF_SQLITE = [
  sql`create table key_numbers (number integer primary key, key_id text not null unique references keys (id))`,
  sql`create virtual table key_texts using fts5
    (text, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram')`,
  sql`insert into key_numbers (key_id) select id from keys order by id`,
  sql`insert into key_texts (rowid, text) select number, ${textOf('keys')}
    from key_numbers cross join keys where keys.id = key_numbers.key_id order by number`,
  sql`create trigger keys_add_text after insert on keys begin
    insert into key_numbers (key_id) values (new.id);
    insert into key_texts (rowid, text)
      values ((select number from key_numbers where key_id = new.id), ${textOf('new')});
  end`,
  sql`create trigger keys_change_text after update of name, hint, description on keys
    when ${textOf('new')} <> ${textOf('old')} begin
    delete from key_texts where rowid = (select number from key_numbers where key_id = new.id);
    insert into key_texts (rowid, text)
      values ((select number from key_numbers where key_id = new.id), ${textOf('new')});
  end`,
]

function textOf(row: 'keys' | 'new' | 'old'): RawBuilder<string> {
  return sql.raw(
    `${row}.name || char(10) || ${row}.id || char(10) || ${row}.hint || char(10) || coalesce(${row}.description, '')`,
  )
}

/**
 * pg_trgm is a trusted extension: the owner of a database may create it. Where it is refused, not installed, or installed in
 * a schema outside the search path (undefined_object), a search examines a bounded number of keys without an index. The expression is that of the search, letter for letter.
 */
const TEXT_INDEX_OF_POSTGRES = [
  sql`do $$ begin
    create extension if not exists pg_trgm;
    create index keys_by_text on keys using gin ((
      (name || E'\\n' || id || E'\\n' || hint || E'\\n' || coalesce(description, '')) collate "default"
    ) gin_trgm_ops);
  exception when insufficient_privilege or feature_not_supported or undefined_file or undefined_object then
    raise notice 'pg_trgm is not available: searches go without an index';
  end $$`,
]
