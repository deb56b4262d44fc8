import type { Command } from 'commander'
import type { Cli } from '../../cli.ts'
import { addSettings, loadOrThrow } from '../../options/settings-flags.ts'

interface Options {
  readonly withoutRedis?: boolean
}

/** `postern database copy` */
export function addCopy(database: Command, cli: Cli): void {
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
    async (from: string, to: string, options: Options, self: Command) => {
      const config = loadOrThrow(cli, self, [])
      const { runCopy } = await import('./run-copy.ts')
      await runCopy(cli.host, config, { from, to, withoutRedis: options.withoutRedis === true })
    },
  )
}
