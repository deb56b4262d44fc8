import { type Kysely, sql } from 'kysely'
import { CHAIN_START } from '../audit/audit-chain.ts'

type TextType = 'text' | ReturnType<typeof sql>

/** Admin tokens, the audit chain and the audit indexes. It only adds: the release before runs on the new schema. */
export async function createAccess(database: Kysely<unknown>, text: TextType): Promise<void> {
  await createTokens(database, text)
  await addChain(database)
  await indexAudit(database)
}

async function createTokens(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('admin_tokens')
    .addColumn('id', text, column => column.primaryKey())
    .addColumn('digest', text, column => column.notNull().unique())
    .addColumn('name', text, column => column.notNull())
    .addColumn('hint', text, column => column.notNull())
    .addColumn('permissions', text, column => column.notNull())
    .addColumn('workspaces', text)
    .addColumn('created_at_ms', 'bigint', column => column.notNull())
    .addColumn('created_by', text, column => column.notNull())
    .addColumn('expires_at_ms', 'bigint', column => column.notNull())
    .addColumn('revoked_at_ms', 'bigint')
    .addColumn('last_used_at_ms', 'bigint')
    .execute()
}

async function addChain(database: Kysely<unknown>): Promise<void> {
  await database.schema.alterTable('audit').addColumn('sequence', 'bigint').execute()
  await database.schema.alterTable('audit').addColumn('hash', 'text').execute()
  await database.schema.createIndex('audit_by_sequence').unique().on('audit').column('sequence').execute()
  await database.schema
    .createTable('audit_head')
    .addColumn('id', 'integer', column => column.primaryKey())
    .addColumn('sequence', 'bigint', column => column.notNull())
    .addColumn('hash', 'text', column => column.notNull())
    .execute()
  const { sequence, hash } = CHAIN_START
  await sql`insert into audit_head (id, sequence, hash) values (1, ${sequence}, ${hash})`.execute(database)
}

async function indexAudit(database: Kysely<unknown>): Promise<void> {
  const index = (name: string, columns: string[]) =>
    database.schema.createIndex(name).on('audit').columns(columns).execute()
  await index('audit_by_key', ['key_id', 'id'])
  await index('audit_by_actor', ['actor', 'id'])
  await index('audit_by_action', ['action', 'id'])
  await index('audit_by_actor_and_action', ['actor', 'action', 'id'])
  await index('audit_by_workspace_and_actor', ['workspace_id', 'actor', 'id'])
  await index('audit_by_workspace_and_action', ['workspace_id', 'action', 'id'])
}

/** A console of the release before goes on appending to the chain itself. */
export async function createAuditQueueTables(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('audit_queue')
    .addColumn('id', text, column => column.primaryKey())
    .addColumn('workspace_id', text, column => column.notNull())
    .addColumn('at_ms', 'bigint', column => column.notNull())
    .addColumn('actor', text, column => column.notNull())
    .addColumn('action', text, column => column.notNull())
    .addColumn('key_id', text, column => column.notNull())
    .addColumn('detail', text, column => column.notNull())
    .execute()
}
