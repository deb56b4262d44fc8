import type { Config } from '../../../config/schema/schema.ts'
import {
  type ChainReport,
  NoAuditChain,
  type VerifyOptions,
  verifyAudit,
} from '../../../control/registry/database/audit/verify-audit.ts'
import { openReadOnly } from '../../../control/registry/database/open-read-only.ts'
import { causeOf } from '../../../observability/control-logger.ts'
import { EXIT, type Host } from '../../../run/host.ts'
import { CliError } from '../../cli-error.ts'

const LIMITS = `A chain shows that an entry was changed, removed or inserted without recomputing it. It cannot show more: an attacker
who can rewrite the whole table and its head can forge it. Keep this head elsewhere, and check it the next time with --head.
`

/** `postern audit verify`: exit 0 if the chain is intact, 1 if not. */
export async function runAuditVerify(host: Host, config: Config, options: VerifyOptions): Promise<void> {
  const report = await readChain(config.database.url, options)
  host.write(describeReport(report, options))
  host.exit(report.problemCount === 0 ? EXIT.ok : EXIT.failure)
}

async function readChain(url: string, options: VerifyOptions): Promise<ChainReport> {
  const database = await openReadOnly(url).catch((error: unknown) => {
    throw new CliError(causeOf(error), EXIT.unavailable)
  })
  try {
    return await verifyAudit(database, options)
  } catch (error) {
    throw error instanceof NoAuditChain ? new CliError(error.message, EXIT.unavailable) : error
  } finally {
    await database.destroy()
  }
}

export function describeReport(report: ChainReport, { keptHead }: Pick<VerifyOptions, 'keptHead'>): string {
  const { head, verified, firstAtMs, beforeChain, queued, keptHeadAt, problems, problemCount } = report
  const since = firstAtMs === null ? '' : `, the first of ${new Date(firstAtMs).toISOString()}`
  const lines = [`Entries in the chain: ${verified}${since}`]
  if (beforeChain > 0) lines.push(`Entries from before the chain, not verified: ${beforeChain}`)
  if (queued > 0) lines.push(`Entries about to be added to the chain, not verified: ${queued}`)
  lines.push(...problems)
  if (problemCount > problems.length) lines.push(`and ${problemCount - problems.length} more`)
  if (keptHead !== null && keptHeadAt !== null) {
    lines.push(`The given head is in the chain, as entry ${keptHeadAt}`)
  }
  lines.push(
    problemCount === 0 ? 'The audit chain is intact' : `The audit chain is broken: ${countOf(problemCount)}`,
  )
  return `${lines.join('\n')}\nHead: ${head?.hash ?? 'none'}\n\n${LIMITS}`
}

function countOf(problems: number): string {
  return problems === 1 ? '1 problem' : `${problems} problems`
}
