import { type Command, InvalidArgumentError } from 'commander'
import type { Config } from '../config/schema.ts'
import type { Host } from '../run/host.ts'

const HASH = /^[0-9a-f]{64}$/

/** Adds the options of `postern audit verify`, which reads the database itself. */
export function addAuditVerify(verify: Command, host: Host, load: (self: Command) => Config): void {
  verify
    .option('--head <hash>', 'a head printed earlier and kept elsewhere: it must be in the chain', checkHash)
    .option(
      '--unchained-before <time>',
      'entries before this instant may be outside the chain, for the time of an upgrade from a release without it (default: the first entry of the chain)',
      checkInstant,
    )
    .action(async (options: { head?: string; unchainedBefore?: number }, self: Command) => {
      const { runAuditVerify } = await import('./audit-verify.ts')
      const { head = null, unchainedBefore = null } = options
      await runAuditVerify(host, load(self), { keptHead: head, unchainedBeforeMs: unchainedBefore })
    })
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
