import type { Config } from '../../config/schema/schema.ts'
import {
  type ChainReport,
  NoAuditChain,
  type UnverifiedGroup,
  type VerifyOptions,
  verifyAudit,
} from '../../console/audit/verify.ts'
import { importAuditKeys } from '../../console/platform/audit/mac.ts'
import { openReadOnly } from '../../console/platform/open-database.ts'
import { describeError } from '../../observability/control-logger.ts'
import { EXIT, type Host } from '../../run/host.ts'
import { CliError, secondText } from '../cli.ts'

const LIMITS = `An entry cannot be changed, added or moved without the signing secrets unless this check shows it. By itself it does not
show that the newest entries were removed: keep this head elsewhere, and check it the next time with --head.
`

/** `postern audit verify`: exit 0 if all of the log was verified, 1 if it is broken, 78 if a signing secret is not given. */
export async function runAuditVerify(
  host: Host,
  config: Config,
  given: Omit<VerifyOptions, 'keys'>,
): Promise<void> {
  const options = { ...given, keys: importAuditKeys(config) }
  const report = await readChain(config.database.url, options)
  host.write(describeReport(report, options))
  if (report.problemCount > 0) host.exit(EXIT.failure)
  else host.exit(report.unverified.length > 0 ? EXIT.config : EXIT.ok)
}

async function readChain(url: string, options: VerifyOptions): Promise<ChainReport> {
  const database = await openReadOnly(url).catch((error: unknown) => {
    throw new CliError(describeError(error), EXIT.unavailable)
  })
  try {
    return await verifyAudit(database, options)
  } catch (error) {
    throw error instanceof NoAuditChain ? new CliError(error.message, EXIT.unavailable) : error
  } finally {
    await database.destroy()
  }
}

function describeReport(report: ChainReport, { keptHead }: Pick<VerifyOptions, 'keptHead'>): string {
  const { head, read, firstAtMs, queued, unverified, keptHeadAt, problems, problemCount } = report
  const since = firstAtMs === null ? '' : `, the first of ${instantText(firstAtMs)}`
  const lines = [`Entries in the chain: ${read}${since}`]
  if (queued > 0) lines.push(`Entries about to be added to the chain: ${queued}`)
  lines.push(...unverified.map(describeUnverified), ...problems)
  if (problemCount > problems.length) lines.push(`and ${problemCount - problems.length} more`)
  if (keptHead !== null && keptHeadAt !== null) {
    lines.push(`The given head is in the chain, as entry ${keptHeadAt}`)
  }
  lines.push(describeConclusion(report))
  return `${lines.join('\n')}\nHead: ${head?.hash ?? 'none'}\n\n${LIMITS}`
}

function describeUnverified({ signedBy, count, first }: UnverifiedGroup): string {
  const entries = count === 1 ? '1 entry' : `${count} entries`
  const reason =
    signedBy === null
      ? 'they name no signing secret'
      : `signing secret ${signedBy} is not given (keys.signingSecrets)`
  return `not verified: ${entries}, the first is ${first} ${reason}`
}

function describeConclusion({ problemCount, unverified }: ChainReport): string {
  if (problemCount > 0) {
    return `The audit chain is broken: ${problemCount === 1 ? '1 problem' : `${problemCount} problems`}`
  }
  if (unverified.length === 0) return 'The audit chain is intact'
  const count = unverified.reduce((sum, group) => sum + group.count, 0)
  return `The audit chain cannot be verified: of ${count === 1 ? '1 entry' : `${count} entries`}, only place and hash are right`
}

/** A forged entry can have any time. */
function instantText(ms: number): string {
  const time = new Date(ms)
  return Number.isNaN(time.getTime()) ? String(ms) : `${secondText(time.toISOString())} UTC`
}
