import { deriveMessageKey } from '../../../src/domain/invalidation-message.ts'
import { deriveRecordKey } from '../../../src/domain/wire.ts'
import type { ControlLogger } from '../../../src/observability/control-logger.ts'
import type { Metrics } from '../../../src/observability/metrics/metrics.ts'
import type { RedisSettings } from '../../../src/redis/options.ts'
import { defaultConfig } from '../../support/default-config.ts'
import { SIGNING_SECRET } from '../../support/signing-secret.ts'

export const CONFIG = defaultConfig()
export const RECORD_KEY = deriveRecordKey(SIGNING_SECRET)
export const MESSAGE_KEY = deriveMessageKey(SIGNING_SECRET)

export function redisSettings(isWatched: boolean): RedisSettings {
  return isWatched
    ? { ...CONFIG.redis, sentinel: { ...CONFIG.redis.sentinel, name: 'main', urls: ['redis://sentinels'] } }
    : { ...CONFIG.redis, url: 'redis://10.0.0.1' }
}

/** Counts nothing: a registry of metrics for each of thousands of worlds would be most of the work. */
const NO_METRIC = {
  inc: () => {},
  set: () => {},
  observe: () => {},
  onCollect: () => {},
  handle: () => NO_METRIC,
}
// Every metric has some of these methods, and nothing reads their values here.
export const NO_METRICS = new Proxy({}, { get: () => NO_METRIC }) as unknown as Metrics

const ignore = (): void => {}
// The four methods that are called; the overloads of pino's are wider.
export const NO_LOG = { debug: ignore, info: ignore, warn: ignore, error: ignore } as unknown as ControlLogger
