import type { Config } from '../../../config/schema/schema.ts'
import { importSecrets } from '../../../control/console-secrets.ts'
import { RedisUnreachable, withSeenRecords } from '../../../control/registry/announcing/seen-records.ts'
import type { SeenRecords } from '../../../control/registry/database/backup/known-keys.ts'
import { redisTopologyOf } from '../../../domain/redis-topology.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import { createMetrics } from '../../../observability/metrics/metrics.ts'
import { EXIT } from '../../../run/host.ts'
import { CliError } from '../../cli.ts'

/** The command reports failures itself. */
const SILENT: ControlLogger = { debug() {}, info() {}, warn() {}, error() {} }

/** Runs a task that needs what Redis knows, or gives it null if it is to do without. */
export function withRedis<Result>(
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

export function hasRedis({ regions, redis }: Config): boolean {
  return regions.length > 0 || redisTopologyOf(redis) !== null
}

/** Of the given signing secrets; a command that does without Redis may have none. */
export function fingerprintsOf(config: Config): readonly string[] {
  return config.keys.signingSecrets.length === 0 ? [] : importSecrets(config).fingerprints
}
