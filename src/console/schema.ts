import { type RawBuilder, sql } from 'kysely'
import { CHAIN_START } from './platform/audit/chain.ts'
import type { Dialect } from './platform/database/database.ts'
import { type Migrations, migrationOf, type SchemaStatements } from './platform/database/migrations.ts'
import { FIVE_MINUTES } from './platform/database/tables.ts'

// The tables of the first release, by capability. A release changes none of them: it adds a migration at the end.

/** Keys, when they were last used, plans of workspaces, responses to repeated requests, and the secrets that have signed keys. */
const keyTables: SchemaStatements = (dialect, text) => [
  sql`create table keys (
    id ${text} primary key, digest ${text} not null unique, workspace_id ${text} not null, name ${text} not null,
    description ${text}, plan ${text}, scopes ${text} not null, allowed_cidrs ${text}, hint ${text} not null,
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
  sql`create table workspace_plans (workspace_id ${text} primary key, plan ${text} not null)`,
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
  // Which plans of a workspace are in use.
  sql`create index keys_by_plan on keys (workspace_id, plan) where plan is not null`,
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

/** Changes that wait to be announced to each region, and what gateways have confirmed. */
const announcingTables: SchemaStatements = (_dialect, text) => [
  sql`create table regions (
    name ${text} primary key, seen_at_ms bigint not null, requeued_until ${text},
    mark ${text} not null default '', marked_at_ms bigint not null default 0, mark_kept_at_ms bigint not null default 0)`,
  sql`create table outbox (
    region ${text} not null, digest ${text} not null, version integer not null, at_ms bigint not null,
    claimed_by ${text} not null default '', claimed_until_ms bigint not null default 0,
    primary key (region, digest, version))`,
  sql`create index outbox_by_time on outbox (region, at_ms)`,
  sql`create table gateways (
    id ${text} primary key, name ${text} not null, region ${text} not null, seen_at_ms bigint not null,
    disconnected_at_ms bigint not null)`,
  sql`create table confirmations (
    digest ${text} not null, version integer not null, gateway_id ${text} not null, at_ms bigint not null,
    primary key (digest, version, gateway_id))`,
  sql`create index confirmations_by_time on confirmations (at_ms)`,
]

/** The chain of audit entries, its newest entry, and entries that are committed and not in the chain yet. */
const auditTables: SchemaStatements = (dialect, text) => [
  sql`create table audit (
    id ${text} primary key, workspace_id ${text} not null, at_ms bigint not null, actor ${text} not null,
    action ${text} not null, key_id ${text} not null, detail ${text} not null, sequence bigint, hash ${text},
    signed_by ${text}, mac ${text})`,
  ...AUDIT_INDEXES,
  ...(dialect === 'sqlite' ? APPEND_ONLY_IN_SQLITE : APPEND_ONLY_IN_POSTGRES),
  sql`create table audit_head (id integer primary key, sequence bigint not null, hash ${text} not null)`,
  sql`insert into audit_head (id, sequence, hash)
    values (1, ${sql.lit(CHAIN_START.sequence)}, ${sql.lit(CHAIN_START.hash)})`,
  sql`create table audit_queue (
    id ${text} primary key, workspace_id ${text} not null, at_ms bigint not null, actor ${text} not null,
    action ${text} not null, key_id ${text} not null, detail ${text} not null, signed_by ${text}, mac ${text},
    rejected_at_ms bigint)`,
]

const AUDIT_INDEXES: readonly RawBuilder<unknown>[] = [
  sql`create unique index audit_by_sequence on audit (sequence)`,
  sql`create index audit_by_signature on audit (signed_by, sequence)`,
  sql`create index audit_by_workspace on audit (workspace_id, id)`,
  sql`create index audit_by_key on audit (key_id, id)`,
  sql`create index audit_by_actor on audit (actor, id)`,
  sql`create index audit_by_action on audit (action, id)`,
  sql`create index audit_by_actor_and_action on audit (actor, action, id)`,
  sql`create index audit_by_workspace_and_actor on audit (workspace_id, actor, id)`,
  sql`create index audit_by_workspace_and_action on audit (workspace_id, action, id)`,
]

/** All that an entry says, and its place. Its signature is renewed when a signing secret is replaced. */
const FIXED_COLUMNS = sql.raw('id, workspace_id, at_ms, actor, action, key_id, detail, sequence, hash')

/*
 * Triggers that reject deletions, and updates of all but the signature. The owner of the table can drop them: they protect
 * against mistakes and a compromised console, not against the database administrator.
 */
const APPEND_ONLY = 'the table audit is append-only'

const APPEND_ONLY_IN_SQLITE: readonly RawBuilder<unknown>[] = [
  sql`create trigger audit_refuses_update before update of ${FIXED_COLUMNS} on audit
    begin select raise(abort, ${sql.lit(APPEND_ONLY)}); end`,
  sql`create trigger audit_refuses_delete before delete on audit
    begin select raise(abort, ${sql.lit(APPEND_ONLY)}); end`,
]

const APPEND_ONLY_IN_POSTGRES: readonly RawBuilder<unknown>[] = [
  sql`create function audit_refuses_changes() returns trigger language plpgsql as
    ${sql.lit(`begin raise exception '${APPEND_ONLY}'; end`)}`,
  // Per statement: the only kind that TRUNCATE fires.
  sql`create trigger audit_refuses_changes before update of ${FIXED_COLUMNS} or delete or truncate on audit
    for each statement execute function audit_refuses_changes()`,
]

const tokenTables: SchemaStatements = (_dialect, text) => [
  sql`create table admin_tokens (
    id ${text} primary key, digest ${text} not null unique, name ${text} not null, hint ${text} not null,
    permissions ${text} not null, workspaces ${text}, created_at_ms bigint not null, created_by ${text} not null,
    expires_at_ms bigint not null, revoked_at_ms bigint, last_used_at_ms bigint)`,
]

const sessionTables: SchemaStatements = (_dialect, text) => [
  sql`create table sessions (
    digest ${text} primary key, subject ${text} not null, person ${text} not null, csrf_secret ${text} not null,
    started_at_ms bigint not null, seen_at_ms bigint not null)`,
  sql`create index sessions_by_subject on sessions (subject)`,
  sql`create index sessions_by_time on sessions (seen_at_ms)`,
]

/** Counts, the last report of each gateway, refusals, and windows of limits that are nearly used up. */
export const usageTables: SchemaStatements = (dialect, text) => [
  ...createCounts(
    'usage_hours',
    text,
    dialect,
    FIVE_MINUTES.map(column => sql`, ${sql.id(column)} bigint`),
  ),
  ...createCounts('usage_days', text, dialect),
  sql`create table usage_gateways (gateway ${text} primary key, sequence bigint not null, seen_at_ms bigint not null)`,
  sql`create table refusals (
    workspace_id ${text} not null, at_ms bigint not null, id ${text} not null, key_id ${text} not null,
    route ${text} not null, code ${text} not null, reason ${text} not null, request_id ${text} not null,
    address ${text} not null, primary key (workspace_id, at_ms, id))`,
  sql`create index refusals_by_time on refusals (at_ms)`,
  sql`create table refusal_gaps (workspace_id ${text} primary key, at_ms bigint not null)`,
  sql`create table limit_uses (
    id ${text} primary key, workspace_id ${text} not null, key_id ${text} not null, plan ${text} not null,
    policy ${text} not null, window_seconds integer not null, requests bigint not null, region ${text} not null,
    used bigint not null, percent integer not null, ends_at_ms bigint not null, reported_at_ms bigint not null,
    sent_percent integer not null, sent_at_ms bigint not null)`,
  // With the end, so that windows that have ended are left out by the index alone.
  sql`create index limit_uses_by_percent on limit_uses (percent, id, ends_at_ms)`,
  sql`create index workspace_limit_uses_by_percent on limit_uses (workspace_id, percent, id, ends_at_ms)`,
  sql`create index limit_uses_by_end on limit_uses (ends_at_ms)`,
]

/**
 * The total of a workspace has an empty key id. PostgreSQL divides the table by time, so that old counts are dropped with
 * their partition; in SQLite the order of the rows is nearly that of time.
 */
function createCounts(
  table: string,
  text: RawBuilder<unknown>,
  dialect: Dialect,
  more: readonly RawBuilder<unknown>[] = [],
): RawBuilder<unknown>[] {
  const partitions = sql.raw(dialect === 'postgres' ? 'partition by range (bucket)' : '')
  // SQLite sums in the event loop. On PostgreSQL a count in an index would make each update write all indexes.
  const summed = sql.raw(dialect === 'sqlite' ? ', code, count' : '')
  return [
    sql`create table ${sql.table(table)} (
      workspace_id ${text} not null, key_id ${text} not null, bucket integer not null, route ${text} not null,
      code ${text} not null, count bigint not null${sql.join(more, sql``)},
      primary key (workspace_id, key_id, bucket, route, code)) ${partitions}`,
    sql`create index ${sql.id(`${table}_of_workspaces`)} on ${sql.table(table)} (bucket, workspace_id${summed})
      where key_id = ''`,
  ]
}

/** Webhooks that workspaces have set, receivers, and deliveries to them. The operator's webhook is in the settings. */
const webhookTables: SchemaStatements = (_dialect, text) => [
  sql`create table workspace_webhooks (
    workspace_id ${text} primary key, url ${text} not null, secret ${text} not null, created_at_ms bigint not null,
    created_by ${text} not null)`,
  sql`create table webhook_receivers (
    receiver ${text} primary key, failures integer not null, paused_until_ms bigint not null,
    claimed_until_ms bigint not null, attempted_at_ms bigint not null)`,
  // The operator: see `OPERATOR` in webhooks/rows.ts.
  sql`insert into webhook_receivers values ('', 0, 0, 0, 0)`,
  sql`create table webhook_deliveries (
    receiver ${text} not null, id ${text} not null, workspace_id ${text} not null, key_id ${text} not null,
    type ${text} not null, deduplication_key ${text} not null, at_ms bigint not null, body ${text} not null,
    attempts integer not null, due_at_ms bigint, delivered_at_ms bigint, last_status integer, last_error ${text},
    primary key (receiver, id), unique (receiver, deduplication_key))`,
  sql`create index webhook_deliveries_by_workspace on webhook_deliveries (receiver, workspace_id, id)`,
  sql`create index webhook_deliveries_by_time on webhook_deliveries (at_ms)`,
  // Partial: most events were delivered.
  sql`create index webhook_deliveries_by_due on webhook_deliveries (receiver, due_at_ms, id)
    where due_at_ms is not null`,
  // Whether any is due, without a look at each receiver.
  sql`create index webhook_deliveries_first_due on webhook_deliveries (due_at_ms, receiver)
    where due_at_ms is not null`,
]

/**
 * The tables of the console. A release only adds migrations, and each only adds tables, columns and indexes: consoles of the
 * release before go on working on them. The next one, with a column for a text of a key, would be
 * `'0002_owner': migrationOf((_dialect, text) => [sql`alter table keys add column owner ${text}`])`.
 */
export const MIGRATIONS: Migrations = {
  '0001_first_tables': migrationOf(
    keyTables,
    announcingTables,
    auditTables,
    tokenTables,
    sessionTables,
    usageTables,
    webhookTables,
  ),
}
