import type { Config } from '../../../src/config/schema/schema.ts'
import { REGION_REDIS_DEFAULTS } from '../../../src/config/schema/store-schema.ts'
import { importSecrets } from '../../../src/console/platform/capability.ts'
import type { ControlLogger } from '../../../src/observability/control-logger.ts'
import type { Metrics } from '../../../src/observability/metrics/metrics.ts'
import type { RedisSettings } from '../../../src/redis/options.ts'
import { defaultConfig } from '../../support/default-config.ts'
import { SIGNING_SECRET } from '../../support/signing-secret.ts'
import type { Settings } from '../plan.ts'

export const CONFIG = defaultConfig()

/** Addresses tell the region. */
export const hostOf = (region: number, index: number): string => `10.0.${region}.${index + 1}`

export function redisSettings(region: number, isWatched: boolean): Config['redis'] {
  const url = `redis://${hostOf(region, 0)}`
  return isWatched
    ? { ...CONFIG.redis, sentinel: { ...CONFIG.redis.sentinel, name: 'main', urls: [url] } }
    : { ...CONFIG.redis, url }
}

export function regionOf({ url, sentinel }: RedisSettings): number {
  return Number(new URL(url ?? sentinel.urls[0] ?? '').host.split('.')[2])
}

/** Counts nothing: a registry of metrics for each of thousands of worlds would be most of the work. */
const NO_METRIC = {
  inc: () => {},
  dec: () => {},
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

export const CONSOLE_SECRETS = importSecrets({
  ...CONFIG,
  keys: { ...CONFIG.keys, signingSecrets: [SIGNING_SECRET.toString('base64')] },
})

export const nameOfRegion = (region: number): string => `region-${region}`

/** @param known how many of the regions the settings name */
export function consoleConfig({ distancesMs, isWatched }: Settings, known: number): Config {
  if (distancesMs.length === 1) return { ...CONFIG, redis: redisSettings(0, isWatched) }
  const regions = distancesMs.slice(0, known).map((_, region) => ({
    name: nameOfRegion(region),
    redis: { ...redisSettings(region, isWatched), ...REGION_REDIS_DEFAULTS },
  }))
  return { ...CONFIG, regions }
}

/** All that a key of the simulation may have. */
export const SCOPES = ['files:read', 'workspace:read']
export const WORKSPACES = ['ws_1', 'ws_2']
