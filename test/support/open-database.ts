import { sql } from 'kysely'
import { type AuditedDatabase, UNSIGNED_AUDIT } from '../../src/console/platform/audit/mac.ts'
import { type OpenOptions, openDatabase as openMigrated } from '../../src/console/platform/open-database.ts'
import { MIGRATIONS } from '../../src/console/schema.ts'
import { DEFAULT_REGION } from '../../src/domain/region.ts'

/** A database of this version, as a console has it: a new one is registered for the region of an installation without regions. */
export async function openDatabase(url: string, options: OpenOptions = {}): Promise<AuditedDatabase> {
  const database = await openMigrated(url, MIGRATIONS, options)
  await sql`insert into regions (name, seen_at_ms) select ${sql.lit(DEFAULT_REGION)}, ${sql.lit(Date.now())}
    where not exists (select name from regions) on conflict do nothing`.execute(database.writer)
  return { ...database, audit: UNSIGNED_AUDIT }
}
