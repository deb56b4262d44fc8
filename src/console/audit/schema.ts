import { type RawBuilder, sql } from 'kysely'
import { CHAIN_START } from '../platform/audit/chain.ts'
import type { CreateTables } from '../platform/database/migrations.ts'

/** The chain of audit entries, its newest entry, and entries that are committed and not in the chain yet. */
export const auditTables: CreateTables = (dialect, text) => [
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
const MESSAGE = 'the table audit is append-only'

const APPEND_ONLY_IN_SQLITE: readonly RawBuilder<unknown>[] = [
  sql`create trigger audit_refuses_update before update of ${FIXED_COLUMNS} on audit
    begin select raise(abort, ${sql.lit(MESSAGE)}); end`,
  sql`create trigger audit_refuses_delete before delete on audit
    begin select raise(abort, ${sql.lit(MESSAGE)}); end`,
]

const APPEND_ONLY_IN_POSTGRES: readonly RawBuilder<unknown>[] = [
  sql`create function audit_refuses_changes() returns trigger language plpgsql as
    ${sql.lit(`begin raise exception '${MESSAGE}'; end`)}`,
  // Per statement: the only kind that TRUNCATE fires.
  sql`create trigger audit_refuses_changes before update of ${FIXED_COLUMNS} or delete or truncate on audit
    for each statement execute function audit_refuses_changes()`,
]
