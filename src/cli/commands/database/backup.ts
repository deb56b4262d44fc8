import type { Command } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import type { Cli } from '../../cli.ts'
import { addSettings, loadOrThrow } from '../../options/settings-flags.ts'
import { wholeNumberTo } from '../../options/whole-number.ts'

const MAX_KEPT = 1000

interface Options {
  readonly force?: boolean
  readonly keep?: number
}

/** `postern database backup` */
export function addBackup(database: Command, cli: Cli): void {
  const backup = database
    .command('backup')
    .description('save the configured database, also while consoles use it, and check the copy')
    .argument('<to>', 'a new file, or a folder, in which the file is named after the time')
    .option('--force', 'replace the file if it exists')
    .option('--keep <count>', 'of a folder: then delete all backups but this many', wholeNumberTo(MAX_KEPT))
  addSettings(backup, cli, ['--database-url', '--database-url-file', '--keys-signing-secrets-file']).action(
    async (to: string, { force, keep }: Options, self: Command) => {
      const config = loadOrThrow(cli, self, [])
      const { runBackup } = await import('./run-backup.ts')
      const { auditKeysOf } = await import('../../../control/registry/database/audit/audit-mac.ts')
      const nowMs = systemClock.wallMs()
      await runBackup(cli.host, {
        url: config.database.url,
        to,
        force: force === true,
        keep: keep ?? null,
        auditKeys: auditKeysOf(config),
        nowMs,
      })
    },
  )
}
