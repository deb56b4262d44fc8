import { randomBytes } from 'node:crypto'
import type { Config } from '../../../config/schema/schema.ts'
import { auditKeysOf } from '../../../control/registry/database/audit/audit-mac.ts'
import { nameUnknown } from '../../../control/registry/database/backup/known-keys.ts'
import { type RestoreReport, restoreDatabase } from '../../../control/registry/database/backup/restore.ts'
import { createIds } from '../../../control/registry/operations/ids.ts'
import { systemClock } from '../../../domain/clock.ts'
import type { Host } from '../../../run/host.ts'
import { keyCount } from '../../output/key-text.ts'
import { fingerprintsOf, withRedis } from './compare-with-redis.ts'
import { runTask } from './run-task.ts'

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
  const report = await runTask(host, 'parts done', progress =>
    withRedis(config, withoutRedis, seen =>
      restoreDatabase({
        ...choices,
        url: config.database.url,
        fingerprints: fingerprintsOf(config),
        seen,
        auditKeys: auditKeysOf(config),
        nowMs: systemClock.wallMs(),
        newAuditId: createIds('audit', randomBytes),
        progress,
      }),
    ),
  )
  host.write(describeRestore(report, request.file))
  if (report.brokenAudit !== null) {
    host.complain(
      `The restored audit log is broken: ${report.brokenAudit}. \`postern audit verify\` lists all\n`,
    )
  }
}

function describeRestore(report: RestoreReport, file: string): string {
  const { keys, revoked, changed, tokensRevoked, known, aside } = report
  const lines = [`Restored ${keyCount(keys)} from ${file}`]
  if (aside !== null) lines.push(`The database before is kept as ${aside}`)
  lines.push(
    known === null
      ? 'Keys revoked since the backup are active again: revoke them before gateways can reach the console'
      : `Taken over from Redis: ${keyCount(revoked)} revoked since the backup, ${changed} changed in another way`,
  )
  if (known !== null && known.unknown > 0) {
    lines.push(
      `Redis has no usable record of ${keyCount(known.unknown)}: ${nameUnknown(known)}. ` +
        'Those that were revoked since the backup are active again: revoke them before gateways can reach the console',
    )
  }
  if (tokensRevoked > 0) lines.push(`Revoked ${tokensRevoked} admin tokens of programs: issue them again`)
  lines.push('Keys issued since the backup are unknown to this database: issue them again')
  return `${lines.join('\n')}\n`
}
