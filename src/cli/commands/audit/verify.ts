import { type Command, InvalidArgumentError } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import type { Cli } from '../../cli.ts'
import { addSettings, loadOrThrow } from '../../options/settings-flags.ts'

const HASH = /^[0-9a-f]{64}$/

interface Options {
  readonly head?: string
  readonly unchainedBefore?: number
}

/** `postern audit verify`, which reads the database itself. */
export function addVerify(audit: Command, cli: Cli): void {
  const verify = audit
    .command('verify')
    .description('check the audit chain in the configured database, read-only; exit 0 or 1')
    .option('--head <hash>', 'a head printed earlier and kept elsewhere: it must be in the chain', checkHash)
    .option(
      '--unchained-before <time>',
      'entries before this instant may be outside the chain, for the time of an upgrade from a release without it (default: the first entry of the chain)',
      checkInstant,
    )
  addSettings(verify, cli, ['--database-url', '--database-url-file']).action(
    async ({ head, unchainedBefore }: Options, self: Command) => {
      const config = loadOrThrow(cli, self, [])
      const { runAuditVerify } = await import('./run-verify.ts')
      await runAuditVerify(cli.host, config, {
        keptHead: head ?? null,
        unchainedBeforeMs: unchainedBefore ?? null,
        nowMs: systemClock.wallMs(),
      })
    },
  )
}

function checkHash(text: string): string {
  if (HASH.test(text)) return text
  throw new InvalidArgumentError('It must be 64 lower-case hexadecimal digits.')
}

function checkInstant(text: string): number {
  const ms = Date.parse(text)
  if (!Number.isNaN(ms)) return ms
  throw new InvalidArgumentError('It must be an instant such as 2027-02-18T09:00:00Z.')
}
