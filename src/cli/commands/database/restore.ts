import type { Command } from 'commander'
import type { Cli } from '../../cli.ts'
import { addSettings, loadOrThrow } from '../../options/settings-flags.ts'

interface Options {
  readonly replace?: boolean
  readonly withoutRedis?: boolean
  readonly allowMissing?: boolean
  readonly keepTokens?: boolean
  readonly allowBrokenAudit?: boolean
}

/** `postern database restore` */
export function addRestore(database: Command, cli: Cli): void {
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
  addSettings(restore, cli, shown).action(async (from: string, options: Options, self: Command) => {
    const config = loadOrThrow(cli, self, [])
    const { runRestore } = await import('./run-restore.ts')
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
