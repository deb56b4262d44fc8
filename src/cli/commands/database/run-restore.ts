import { randomBytes } from 'node:crypto'
import type { Config } from '../../../config/schema/schema.ts'
import { RedisUnreachable, withSeenRecords } from '../../../control/registry/announcing/seen-records.ts'
import type { SeenRecords } from '../../../control/registry/database/backup/newer-records.ts'
import { type RestoreReport, restoreDatabase } from '../../../control/registry/database/backup/restore.ts'
import { createIds } from '../../../control/registry/operations/ids.ts'
import { systemClock } from '../../../domain/clock.ts'
import { redisTopologyOf } from '../../../domain/redis-topology.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import { createMetrics } from '../../../observability/metrics/metrics.ts'
import { EXIT, type Host } from '../../../run/host.ts'
import { CliError } from '../../cli-error.ts'
import { keyCount } from '../../output/key-text.ts'
import { runTask } from './run-task.ts'

interface RestoreRequest {
  readonly file: string
  readonly replace: boolean
  readonly withoutRedis: boolean
  readonly keepsTokens: boolean
}

/** The command reports failures itself. */
const SILENT: ControlLogger = { debug() {}, info() {}, warn() {}, error() {} }

export async function runRestore(host: Host, config: Config, request: RestoreRequest): Promise<void> {
  const { file, replace, keepsTokens } = request
  const report = await runTask(host, 'parts done', progress =>
    withRedis(config, request, seen =>
      restoreDatabase({
        url: config.database.url,
        file,
        replace,
        keepsTokens,
        seen,
        nowMs: systemClock.wallMs(),
        newAuditId: createIds('audit', randomBytes),
        progress,
      }),
    ),
  )
  host.write(describeRestore(report, file, request))
}

function withRedis<Result>(
  config: Config,
  { withoutRedis }: RestoreRequest,
  run: (seen: SeenRecords | null) => Promise<Result>,
): Promise<Result> {
  if (withoutRedis) return run(null)
  const hasRedis = config.regions.length > 0 || redisTopologyOf(config.redis) !== null
  if (!hasRedis || config.keys.signingSecrets.length === 0) {
    throw new CliError(
      'redis.url (or regions) and keys.signingSecrets: set them as for the console, so that keys revoked since the backup stay revoked, ' +
        'or add --without-redis',
      EXIT.config,
    )
  }
  const parts = { config, metrics: createMetrics([]), logger: SILENT }
  return withSeenRecords(parts, run).catch((error: unknown) => {
    if (!(error instanceof RedisUnreachable)) throw error
    throw new CliError(
      `${error.message}. It knows what was revoked since the backup: try again when it is there, or add --without-redis`,
      EXIT.unavailable,
    )
  })
}

function describeRestore(report: RestoreReport, file: string, { withoutRedis }: RestoreRequest): string {
  const { keys, revoked, changed, tokensRevoked, aside } = report
  const lines = [`Restored ${keyCount(keys)} from ${file}`]
  if (aside !== null) lines.push(`The database before is kept as ${aside}`)
  lines.push(
    withoutRedis
      ? 'Keys revoked since the backup are active again: revoke them before gateways can reach the console'
      : `Taken over from Redis: ${keyCount(revoked)} revoked since the backup, ${changed} changed in another way`,
  )
  if (tokensRevoked > 0) lines.push(`Revoked ${tokensRevoked} admin tokens of programs: issue them again`)
  lines.push('Keys issued since the backup are unknown to this database: issue them again')
  return `${lines.join('\n')}\n`
}
