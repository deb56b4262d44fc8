import type { Command } from 'commander'
import type { Cli, Define } from '../cli.ts'
import { addSettings, loadOrThrow } from '../options/settings-flags.ts'
import { wholeNumberTo } from '../options/values.ts'

const MAX_KEPT = 1000

/** `postern database …`, which reads and writes the databases itself. */
export const define: Define = (database, cli) => {
  for (const add of [addBackup, addRestore, addCopy]) add(database, cli)
}

interface BackupOptions {
  readonly force?: boolean
  readonly keep?: number
}

/** `postern database backup` */
function addBackup(database: Command, cli: Cli): void {
  const backup = database
    .command('backup')
    .description('save the configured database, also while consoles use it, and check the copy')
    .argument('<to>', 'a new file, or a folder, in which the file is named after the time')
    .option('--force', 'replace the file if it exists')
    .option('--keep <count>', 'of a folder: then delete all backups but this many', wholeNumberTo(MAX_KEPT))
  addSettings(backup, cli, ['--database-url', '--database-url-file', '--keys-signing-secrets-file']).action(
    async (to: string, { force, keep }: BackupOptions, self: Command) => {
      const config = loadOrThrow(cli, self, [])
      const { runBackup } = await import('./database-tasks.ts')
      await runBackup(cli.host, config, { to, force: force === true, keep: keep ?? null })
    },
  )
}

interface RestoreOptions {
  readonly replace?: boolean
  readonly withoutRedis?: boolean
  readonly allowMissing?: boolean
  readonly keepTokens?: boolean
  readonly allowBrokenAudit?: boolean
}

/** `postern database restore` */
function addRestore(database: Command, cli: Cli): void {
  const restore = database
    .command('restore')
    .description('put a backup in place of the configured database, while no console runs')
    .argument('<from>', 'a file that `database backup` saved')
    .option('--replace', 'restore in place of a database that holds data')
    .option('--without-redis', 'do not ask Redis what was revoked since the backup: such keys work again')
    .option(
      '--allow-missing',
      'also restore keys that Redis has no record of: those revoked since the backup work again',
    )
    .option('--keep-tokens', 'do not revoke the admin tokens of programs')
    .option(
      '--allow-broken-audit',
      'also restore an audit log with entries that no console wrote, or without some',
    )
  const shown = ['--database-url', '--database-url-file', '--redis-url', '--keys-signing-secrets-file']
  addSettings(restore, cli, shown).action(async (from: string, options: RestoreOptions, self: Command) => {
    const config = loadOrThrow(cli, self, [])
    const { runRestore } = await import('./database-tasks.ts')
    await runRestore(cli.host, config, {
      file: from,
      replace: options.replace === true,
      withoutRedis: options.withoutRedis === true,
      allowsMissing: options.allowMissing === true,
      keepsTokens: options.keepTokens === true,
      allowsBrokenAudit: options.allowBrokenAudit === true,
    })
  })
}

interface CopyOptions {
  readonly withoutRedis?: boolean
}

/** `postern database copy` */
function addCopy(database: Command, cli: Cli): void {
  const copy = database
    .command('copy')
    .description('copy the database of stopped consoles to an empty one, such as from SQLite to PostgreSQL')
    .argument('<from>', 'sqlite:FILE, a file, or postgres://…')
    .argument('<to>', 'the same; the password of PostgreSQL may be in PGPASSWORD')
    .option(
      '--without-redis',
      'do not check with Redis that <from> is the newest: revoked keys could work again',
    )
  addSettings(copy, cli, ['--redis-url', '--keys-signing-secrets-file']).action(
    async (from: string, to: string, options: CopyOptions, self: Command) => {
      const config = loadOrThrow(cli, self, [])
      const { runCopy } = await import('./database-tasks.ts')
      await runCopy(cli.host, config, { from, to, withoutRedis: options.withoutRedis === true })
    },
  )
}
