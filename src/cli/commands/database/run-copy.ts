import type { Config } from '../../../config/schema/schema.ts'
import { auditKeysOf } from '../../../control/registry/database/audit/audit-mac.ts'
import { copyDatabase } from '../../../control/registry/database/backup/copy-database.ts'
import { systemClock } from '../../../domain/clock.ts'
import type { Host } from '../../../run/host.ts'
import { fingerprintsOf, hasRedis, withRedis } from './compare-with-redis.ts'
import { databaseUrlOf, runTask } from './run-task.ts'

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
  const [fromUrl, toUrl] = [databaseUrlOf(from, '<from>'), databaseUrlOf(to, '<to>')]
  // An installation without Redis has nothing to compare with.
  const isCompared = !withoutRedis && hasRedis(config)
  const nowMs = systemClock.wallMs()
  const rows = await runTask(host, 'rows copied', progress =>
    withRedis(config, !isCompared, seen =>
      copyDatabase(fromUrl, toUrl, {
        seen,
        fingerprints: fingerprintsOf(config),
        auditKeys: auditKeysOf(config),
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
