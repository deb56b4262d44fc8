import { type Command, InvalidArgumentError } from 'commander'
import { systemClock } from '../../../domain/clock.ts'
import type { Cli } from '../../cli.ts'
import { addSettings, loadOrThrow } from '../../options/settings-flags.ts'

const HASH = /^[0-9a-f]{64}$/

interface Options {
  readonly head?: string
}

/** `postern audit verify`, which reads the database itself. */
export function addVerify(audit: Command, cli: Cli): void {
  const verify = audit
    .command('verify')
    .description(
      'check the audit chain in the configured database, read-only; exit 0 only if all of it was verified',
    )
    .option('--head <hash>', 'a head printed earlier and kept elsewhere: it must be in the chain', checkHash)
  const shown = ['--database-url', '--database-url-file', '--keys-signing-secrets-file']
  addSettings(verify, cli, shown).action(async ({ head }: Options, self: Command) => {
    const config = loadOrThrow(cli, self, [])
    const { runAuditVerify } = await import('./run-verify.ts')
    await runAuditVerify(cli.host, config, { keptHead: head ?? null, nowMs: systemClock.wallMs() })
  })
}

function checkHash(text: string): string {
  if (HASH.test(text)) return text
  throw new InvalidArgumentError('It must be 64 lower-case hexadecimal digits.')
}
