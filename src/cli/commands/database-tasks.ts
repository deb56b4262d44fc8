import { randomBytes } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { formats } from '../../config/formats.ts'
import type { Config } from '../../config/schema/schema.ts'
import { backUp } from '../../console/backup/back-up.ts'
import { copyDatabase } from '../../console/backup/copy-database.ts'
import {
  nameUnknown,
  RedisUnreachable,
  type SeenRecords,
  withSeenRecords,
} from '../../console/backup/newer-records.ts'
import { type RestoreReport, restoreDatabase } from '../../console/backup/restore.ts'
import { importAuditKeys } from '../../console/platform/audit/mac.ts'
import { importSecrets } from '../../console/platform/capability.ts'
import {
  DatabaseForbidden,
  DatabaseUnreachable,
  type ProgressDisplay,
} from '../../console/platform/database/database.ts'
import { createIds } from '../../console/platform/database/ids.ts'
import { isConnectionLost, isForbidden } from '../../console/platform/database/postgres/errors.ts'
import { systemClock } from '../../domain/clock.ts'
import { StartError } from '../../domain/errors.ts'
import { findRedisTopology } from '../../domain/redis-address.ts'
import { describeError, SILENT } from '../../observability/control-logger.ts'
import { createMetrics } from '../../observability/metrics/metrics.ts'
import { EXIT, type Host } from '../../run/host.ts'
import { CliError, keyCount, usageError } from '../cli.ts'
import { createProgress } from '../output/terminal.ts'

/** Names of backups in a folder: they sort by time. */
const NAME = /^postern-\d{8}T\d{6}Z\.db$/

interface BackupRequest {
  readonly to: string
  readonly force: boolean
  /** How many backups a folder keeps; null for all. */
  readonly keep: number | null
}

export async function runBackup(host: Host, config: Config, request: BackupRequest): Promise<void> {
  const { to, force, keep } = request
  const nowMs = systemClock.wallMs()
  const isFolder = await stat(to).then(
    found => found.isDirectory(),
    () => false,
  )
  if (keep !== null && !isFolder) throw usageError(`--keep needs a folder, which ${to} is not`)
  const file = isFolder ? join(to, nameAt(nowMs)) : to
  const report = await runTask(host, progress =>
    backUp({ url: config.database.url, file, force, auditKeys: importAuditKeys(config), nowMs, progress }),
  )
  const entries = report.auditEntries === 1 ? '1 audit entry' : `${report.auditEntries} audit entries`
  host.write(`Saved ${keyCount(report.keys)} and ${entries} to ${file}\nAudit head: ${report.auditHead}\n`)
  if (report.schemaDifferences !== null) {
    host.writeError(
      `The schema is not as Postern makes it: ${report.schemaDifferences}. A restore refuses this backup until that is corrected\n`,
    )
  }
  if (report.brokenAudit !== null) {
    host.writeError(
      `The audit log has entries that were changed or removed, or that no console wrote: ${report.brokenAudit}. ` +
        '`postern audit verify` lists them. A restore refuses this backup without --allow-broken-audit\n',
    )
  }
  if (keep !== null) await deleteOldest(host, file, keep)
}

function nameAt(nowMs: number): string {
  return `postern-${new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '')}.db`
}

/** Backups of a later time were named by a clock that was ahead: they are no newer than the one just saved, and are left alone. */
async function deleteOldest(host: Host, saved: string, keep: number): Promise<void> {
  const folder = dirname(saved)
  const names = (await readdir(folder)).filter(name => NAME.test(name)).sort()
  const later = names.filter(name => name > basename(saved))
  const known = names.slice(0, names.length - later.length)
  for (const name of known.slice(0, Math.max(0, known.length - keep))) {
    await rm(join(folder, name))
    host.write(`Deleted ${join(folder, name)}\n`)
  }
  if (later.length > 0) {
    host.writeError(
      `Neither counted nor deleted, because their names are of a later time: ${later.join(', ')}. A clock was ahead, unless they were saved meanwhile\n`,
    )
  }
}

interface RestoreRequest {
  readonly file: string
  readonly replace: boolean
  readonly withoutRedis: boolean
  readonly allowsMissing: boolean
  readonly keepsTokens: boolean
  readonly allowsBrokenAudit: boolean
}

export async function runRestore(host: Host, config: Config, request: RestoreRequest): Promise<void> {
  const { withoutRedis, ...choices } = request
  const report = await runTask(host, progress =>
    withRedis(config, withoutRedis, seen =>
      restoreDatabase({
        ...choices,
        url: config.database.url,
        fingerprints: secretFingerprints(config),
        seen,
        auditKeys: importAuditKeys(config),
        nowMs: systemClock.wallMs(),
        newAuditId: createIds('audit', randomBytes),
        progress,
      }),
    ),
  )
  host.write(describeRestore(report, request.file))
  if (report.waitingUnread !== null) {
    const since = withoutRedis ? 'since the backup' : 'while Redis was away'
    host.writeError(
      `The replaced database cannot be read: ${report.waitingUnread}. A key that was revoked ${since} works again: revoke it again\n`,
    )
  }
  if (report.brokenAudit !== null) {
    host.writeError(
      `The restored audit log is broken: ${report.brokenAudit}. \`postern audit verify\` lists all\n`,
    )
  }
}

function describeRestore(report: RestoreReport, file: string): string {
  const { keys, revoked, changed, tokensRevoked, known, aside } = report
  const lines = [`Restored ${keyCount(keys)} from ${file}`]
  if (aside !== null) lines.push(`The database before is kept as ${aside}`)
  if (known !== null || revoked + changed > 0) {
    const source = known === null ? 'the replaced database' : 'Redis'
    lines.push(
      `Taken over from ${source}: ${keyCount(revoked)} revoked since the backup, ${changed} changed in another way`,
    )
  }
  if (known === null) {
    const others = revoked > 0 ? 'Other keys' : 'Keys'
    lines.push(
      `${others} revoked since the backup are active again: revoke them before gateways can reach the console`,
    )
  }
  if (known !== null && known.unknown > 0) {
    lines.push(
      `Redis has no usable record of ${keyCount(known.unknown)}: ${nameUnknown(known)}. ` +
        'Those that were revoked since the backup are active again: revoke them before gateways can reach the console',
    )
  }
  if (tokensRevoked === 1) lines.push('Revoked 1 admin token of a program: issue it again')
  if (tokensRevoked > 1) lines.push(`Revoked ${tokensRevoked} admin tokens of programs: issue them again`)
  lines.push('Keys issued since the backup are unknown to this database: issue them again')
  return `${lines.join('\n')}\n`
}

interface CopyRequest {
  readonly from: string
  readonly to: string
  readonly withoutRedis: boolean
}

export async function runCopy(
  host: Host,
  config: Config,
  { from, to, withoutRedis }: CopyRequest,
): Promise<void> {
  const [fromUrl, toUrl] = [parseDatabaseUrl(from, '<from>'), parseDatabaseUrl(to, '<to>')]
  // An installation without Redis has nothing to compare with.
  const isCompared = !withoutRedis && hasRedis(config)
  const nowMs = systemClock.wallMs()
  const rows = await runTask(host, progress =>
    withRedis(config, !isCompared, seen =>
      copyDatabase(fromUrl, toUrl, {
        seen,
        fingerprints: secretFingerprints(config),
        auditKeys: importAuditKeys(config),
        nowMs,
        progress,
      }),
    ),
  )
  host.write(`Copied ${rows} rows; each table has as many as before, and the audit chain is intact.\n`)
  if (!isCompared) {
    host.write(
      'Not compared with Redis: if this was not the newest database, keys revoked since work again.\n',
    )
  }
}

/** Runs a task on a database, with progress on standard error. @throws CliError if it was not done */
async function runTask<Result>(
  host: Host,
  task: (progress: ProgressDisplay) => Promise<Result>,
): Promise<Result> {
  const progress = createProgress(host.streams.errors, false)
  try {
    return await task(progress)
  } catch (error) {
    if (error instanceof CliError) throw error
    throw new CliError(describe(error), chooseExitCode(error))
  } finally {
    progress.end()
  }
}

function chooseExitCode(error: unknown): number {
  if (error instanceof DatabaseUnreachable || isConnectionLost(error)) return EXIT.unavailable
  if (error instanceof DatabaseForbidden || isForbidden(error)) return EXIT.forbidden
  return error instanceof StartError ? EXIT.rejected : EXIT.failure
}

/** With the cause, in one line. */
function describe(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? `: ${describeError(error.cause)}` : ''
  return `${describeError(error)}${cause}`
}

/**
 * A path is a SQLite file.
 * @param name of the argument
 */
function parseDatabaseUrl(text: string, name: string): string {
  const [scheme] = /^(?:sqlite|postgres|postgresql):|^[a-z][a-z0-9+.-]*:(?=\/\/)/i.exec(text) ?? []
  if (scheme === undefined) return `sqlite:${text}`
  const format = formats['database-url']
  if (format?.accepts(text) === true && text !== 'sqlite::memory:') return text
  const problem = format?.explainProblem?.(text) ?? null
  if (problem !== null) throw usageError(`${name} ${problem}`)
  // A password may be in the rest.
  throw usageError(
    `${name} must be sqlite:FILE, a file, or postgres://USER@HOST/DATABASE, which ${scheme}… is not`,
  )
}

/** Runs a task that needs what Redis knows, or gives it null if it is to do without. */
async function withRedis<Result>(
  config: Config,
  withoutRedis: boolean,
  run: (seen: SeenRecords | null) => Promise<Result>,
): Promise<Result> {
  if (withoutRedis) return run(null)
  if (!hasRedis(config) || config.keys.signingSecrets.length === 0) {
    throw new CliError(
      'redis.url (or regions) and keys.signingSecrets: set them as for the console, so that revoked keys stay revoked, ' +
        'or add --without-redis',
      EXIT.config,
    )
  }
  const parts = { config, metrics: createMetrics([]), logger: SILENT }
  return withSeenRecords(parts, run).catch((error: unknown) => {
    if (!(error instanceof RedisUnreachable)) throw error
    throw new CliError(
      `${error.message}. It knows which keys were revoked: try again when it is there, or add --without-redis`,
      EXIT.unavailable,
    )
  })
}

function hasRedis({ regions, redis }: Config): boolean {
  return regions.length > 0 || findRedisTopology(redis) !== null
}

/** Of the given signing secrets; a command that does without Redis may have none. */
function secretFingerprints(config: Config): readonly string[] {
  return config.keys.signingSecrets.length === 0 ? [] : importSecrets(config).fingerprints
}
