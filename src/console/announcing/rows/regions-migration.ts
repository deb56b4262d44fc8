import { type Kysely, sql } from 'kysely'
import { DEFAULT_REGION } from '../../../domain/region.ts'

type TextType = 'text' | ReturnType<typeof sql>

/** Regions, each with an outbox. The table `outbox` stays that of the default region, as the release before knows it. */
export async function createRegions(database: Kysely<unknown>, text: TextType): Promise<void> {
  await database.schema
    .createTable('regions')
    .addColumn('name', text, column => column.primaryKey())
    .addColumn('seen_at_ms', 'bigint', column => column.notNull())
    .addColumn('requeued_until', text)
    .execute()
  const nowMs = Date.now()
  await sql`insert into regions (name, seen_at_ms) values (${DEFAULT_REGION}, ${nowMs})`.execute(database)
  await database.schema
    .createTable('region_outbox')
    .addColumn('region', text, column => column.notNull())
    .addColumn('digest', text, column => column.notNull())
    .addColumn('version', 'integer', column => column.notNull())
    .addColumn('at_ms', 'bigint', column => column.notNull())
    .addColumn('claimed_by', 'text', column => column.notNull().defaultTo(''))
    .addColumn('claimed_until_ms', 'bigint', column => column.notNull().defaultTo(0))
    .addPrimaryKeyConstraint('region_outbox_key', ['region', 'digest', 'version'])
    .execute()
  const columns = ['region', 'at_ms']
  await database.schema.createIndex('region_outbox_by_time').on('region_outbox').columns(columns).execute()
  await database.schema
    .alterTable('gateways')
    .addColumn('region', text, column => column.notNull().defaultTo(DEFAULT_REGION))
    .execute()
}
