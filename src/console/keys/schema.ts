import { type RawBuilder, sql } from 'kysely'
import type { CreateTables } from '../platform/database/migrations.ts'

/** Keys, when they were last used, responses to repeated requests, and the secrets that have signed keys. */
export const keyTables: CreateTables = (dialect, text) => [
  sql`create table keys (
    id ${text} primary key, digest ${text} not null unique, workspace_id ${text} not null, name ${text} not null,
    description ${text}, scopes ${text} not null, allowed_cidrs ${text}, hint ${text} not null,
    created_at_ms bigint not null, created_by ${text} not null, expires_at_ms bigint not null,
    suspended_at_ms bigint, revoked_at_ms bigint, rotated_from ${text}, replaced_by ${text},
    version integer not null check (version >= 1), changed_at_ms bigint not null)`,
  ...KEY_INDEXES,
  ...(dialect === 'postgres' ? RARE_STATES_IN_POSTGRES : []),
  sql`create table key_use (
    key_id ${text} primary key references keys (id), workspace_id ${text} not null, last_used_at_ms bigint not null)`,
  sql`create index keys_by_use on key_use (last_used_at_ms, key_id)`,
  sql`create index workspace_keys_by_use on key_use (workspace_id, last_used_at_ms, key_id)`,
  ...(dialect === 'sqlite' ? USES_IN_SQLITE : USES_IN_POSTGRES),
  ...(dialect === 'sqlite' ? TEXT_INDEX_OF_SQLITE : TEXT_INDEX_OF_POSTGRES),
  sql`create table idempotent_responses (
    id ${text} primary key, request ${text} not null, outcome ${text} not null, at_ms bigint not null)`,
  sql`create index idempotent_responses_by_time on idempotent_responses (at_ms)`,
  sql`create table signing_secrets (
    fingerprint ${text} primary key, first_used_at_ms bigint not null, signs_audit_at_ms bigint not null)`,
]

const KEY_INDEXES: readonly RawBuilder<unknown>[] = [
  sql`create index keys_by_workspace on keys (workspace_id, id)`,
  sql`create index keys_by_hint on keys (workspace_id, hint)`,
  // Partial: most keys were only issued and are never queried by this time.
  sql`create index keys_by_change on keys (changed_at_ms) where version > 1`,
  sql`create index keys_by_creation on keys (created_at_ms, id)`,
  sql`create index workspace_keys_by_creation on keys (workspace_id, created_at_ms, id)`,
  sql`create index keys_by_expiry_and_id on keys (expires_at_ms, id)`,
  // With all that decides the state, so that counting reads the index alone.
  sql`create index workspace_keys_by_expiry
    on keys (workspace_id, expires_at_ms, id, revoked_at_ms, suspended_at_ms, replaced_by)`,
  sql`create index keys_by_name on keys (name, id)`,
  sql`create index workspace_keys_by_name on keys (workspace_id, name, id)`,
]

/** SQLite reads the index by expiry from end to end instead. */
const RARE_STATES_IN_POSTGRES: readonly RawBuilder<unknown>[] = [
  sql`create index keys_revoked on keys (workspace_id, id) where revoked_at_ms is not null`,
  sql`create index keys_suspended on keys (workspace_id, id)
    where suspended_at_ms is not null and revoked_at_ms is null`,
  sql`create index keys_replaced on keys (expires_at_ms, workspace_id, id)
    where replaced_by is not null and revoked_at_ms is null`,
]

/** Each key has a row from the start, so that keys that were never used have their place in the order of uses. */
const USES_IN_SQLITE: readonly RawBuilder<unknown>[] = [
  sql`create trigger keys_add_use after insert on keys begin
    insert into key_use (key_id, workspace_id, last_used_at_ms) values (new.id, new.workspace_id, 0);
  end`,
]

const USES_IN_POSTGRES: readonly RawBuilder<unknown>[] = [
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
const TEXT_INDEX_OF_SQLITE: readonly RawBuilder<unknown>[] = [
  sql`create table key_numbers (number integer primary key, key_id text not null unique references keys (id))`,
  sql`create virtual table key_texts using fts5
    (text, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram')`,
  sql`create trigger keys_add_text after insert on keys begin
    insert into key_numbers (key_id) values (new.id);
    insert into key_texts (rowid, text)
      values ((select number from key_numbers where key_id = new.id), ${searchedText('new')});
  end`,
  sql`create trigger keys_change_text after update of name, hint, description on keys
    when ${searchedText('new')} <> ${searchedText('old')} begin
    delete from key_texts where rowid = (select number from key_numbers where key_id = new.id);
    insert into key_texts (rowid, text)
      values ((select number from key_numbers where key_id = new.id), ${searchedText('new')});
  end`,
]

function searchedText(row: 'new' | 'old'): RawBuilder<string> {
  return sql.raw(
    `${row}.name || char(10) || ${row}.id || char(10) || ${row}.hint || char(10) || coalesce(${row}.description, '')`,
  )
}

/**
 * pg_trgm is a trusted extension: the owner of a database may create it. Where it is refused, not installed, or installed in
 * a schema outside the search path (undefined_object), a search examines a bounded number of keys without an index. The
 * expression is that of the search, letter for letter.
 */
const TEXT_INDEX_OF_POSTGRES: readonly RawBuilder<unknown>[] = [
  sql`do $$ begin
    create extension if not exists pg_trgm;
    create index keys_by_text on keys using gin ((
      (name || E'\\n' || id || E'\\n' || hint || E'\\n' || coalesce(description, '')) collate "default"
    ) gin_trgm_ops);
  exception when insufficient_privilege or feature_not_supported or undefined_file or undefined_object then
    raise notice 'pg_trgm is not available: searches go without an index';
  end $$`,
]
