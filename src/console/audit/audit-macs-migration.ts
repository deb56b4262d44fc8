import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Dialect } from '../platform/database/database.ts'

/** All that an entry says, and its place. Its signature is renewed when a signing secret is replaced. */
const FIXED_COLUMNS = [
  ...['id', 'workspace_id', 'at_ms', 'actor', 'action', 'key_id', 'detail', 'sequence', 'hash'],
] as const

/** MACs of audit entries, each with the secret that signed it. */
export async function addAuditMacs(database: Kysely<unknown>, dialect: Dialect): Promise<void> {
  for (const table of ['audit', 'audit_queue']) {
    await database.schema.alterTable(table).addColumn('signed_by', 'text').execute()
    await database.schema.alterTable(table).addColumn('mac', 'text').execute()
  }
  await database.schema.alterTable('audit_queue').addColumn('rejected_at_ms', 'bigint').execute()
  await database.schema
    .alterTable('signing_secrets')
    .addColumn('signs_audit_at_ms', 'bigint', column => column.notNull().defaultTo(0))
    .execute()
  const columns = ['signed_by', 'sequence']
  await database.schema.createIndex('audit_by_signature').on('audit').columns(columns).execute()
  for (const statement of allowSignatures(dialect)) await statement.execute(database)
}

/** The triggers of the table `audit`, for updates of all but the signature. */
function allowSignatures(dialect: Dialect): RawBuilder<unknown>[] {
  const columns = sql.join(FIXED_COLUMNS.map(column => sql.ref(column)))
  if (dialect === 'sqlite') {
    return [
      sql`drop trigger audit_refuses_update`,
      sql`create trigger audit_refuses_update before update of ${columns} on audit
        begin select raise(abort, 'the table audit is append-only'); end`,
    ]
  }
  return [
    sql`drop trigger audit_refuses_changes on audit`,
    sql`create trigger audit_refuses_changes before update of ${columns} or delete or truncate on audit
      for each statement execute function audit_refuses_changes()`,
  ]
}
