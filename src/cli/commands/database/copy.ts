import type { Command } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import type { Cli } from '../../cli.ts'

/** `postern database copy` */
export function addCopy(database: Command, { host }: Cli): void {
  database
    .command('copy')
    .description('copy the database of stopped consoles to an empty one, such as from SQLite to PostgreSQL')
    .argument('<from>', 'sqlite:FILE, a file, or postgres://…')
    .argument('<to>', 'the same; the password of PostgreSQL may be in PGPASSWORD')
    .action(async (from: string, to: string) => {
      const { copyDatabase } = await import('../../../control/registry/database/backup/copy-database.ts')
      const { databaseUrlOf, runTask } = await import('./run-task.ts')
      const nowMs = systemClock.wallMs()
      const rows = await runTask(host, 'rows copied', progress =>
        copyDatabase(databaseUrlOf(from), databaseUrlOf(to), { nowMs, progress }),
      )
      host.write(`Copied ${rows} rows; each table has as many as before, and the audit chain is intact.\n`)
    })
}
