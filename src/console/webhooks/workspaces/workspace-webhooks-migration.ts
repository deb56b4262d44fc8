import { type Kysely, type RawBuilder, sql } from 'kysely'

type TextType = 'text' | RawBuilder<unknown>

/**
 * Webhooks of workspaces, and their events in a table of their own: a console of the release before would send those in
 * `notices` to the operator's webhook. It only adds.
 */
export async function createWorkspaceWebhookTables(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('workspace_webhooks')
    .addColumn('workspace_id', text, column => column.primaryKey())
    .addColumn('url', text, column => column.notNull())
    .addColumn('secret', text, column => column.notNull())
    .addColumn('created_at_ms', 'bigint', column => column.notNull())
    .addColumn('created_by', text, column => column.notNull())
    .addColumn('failures', 'integer', column => column.notNull())
    .addColumn('paused_until_ms', 'bigint', column => column.notNull())
    .addColumn('claimed_until_ms', 'bigint', column => column.notNull())
    .addColumn('attempted_at_ms', 'bigint', column => column.notNull())
    .execute()
  await database.schema
    .createTable('workspace_notices')
    .addColumn('id', text, column => column.primaryKey())
    .addColumn('workspace_id', text, column => column.notNull())
    .addColumn('key_id', text, column => column.notNull())
    .addColumn('type', text, column => column.notNull())
    .addColumn('occasion', text, column => column.notNull().unique())
    .addColumn('at_ms', 'bigint', column => column.notNull())
    .addColumn('body', text, column => column.notNull())
    .addColumn('attempts', 'integer', column => column.notNull())
    .addColumn('due_at_ms', 'bigint')
    .addColumn('delivered_at_ms', 'bigint')
    .addColumn('last_status', 'integer')
    .addColumn('last_error', text)
    .execute()
  await database.schema
    .createIndex('workspace_notices_by_workspace')
    .on('workspace_notices')
    .columns(['workspace_id', 'id'])
    .execute()
  await database.schema
    .createIndex('workspace_notices_by_time')
    .on('workspace_notices')
    .column('at_ms')
    .execute()
  // Partial: most events were delivered.
  await sql`create index workspace_notices_by_due on workspace_notices (workspace_id, due_at_ms)
    where due_at_ms is not null`.execute(database)
}
