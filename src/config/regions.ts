import { findIdleParts, findRedisTopology, isEncryptedRedis } from '../domain/redis-address.ts'
import type { ConfigProblem } from './config-error.ts'
import { formats } from './formats.ts'
import type { Config, RegionSettings } from './schema/schema.ts'
import type { ValueOf } from './schema/schema-builders.ts'
import { REGION_REDIS_DEFAULTS, type region } from './schema/store-schema.ts'
import type { SettingFiles } from './setting-files.ts'

type WrittenRegion = ValueOf<typeof region>

interface Reading {
  readonly files: SettingFiles
  readonly problems: ConfigProblem[]
}

/** @param written what the schema has accepted. @returns it with secrets read from their files, and defaults filled in */
export function readRegions(written: unknown, reading: Reading): RegionSettings[] {
  // The schema has accepted them.
  return (written as WrittenRegion[]).map((entry, index) =>
    readRegion(entry, `regions, at ${index}`, reading),
  )
}

function readRegion({ name, redis }: WrittenRegion, source: string, reading: Reading): RegionSettings {
  const { sentinel = { urls: [] }, cluster = { urls: [] }, urlFile, passwordFile, ...rest } = redis
  const { passwordFile: sentinelFile, ...sentinels }: NonNullable<typeof redis.sentinel> = sentinel
  if (rest.caFile !== undefined) reading.files.watch(rest.caFile)
  const at = `${source}.redis`
  return {
    name,
    redis: {
      ...REGION_REDIS_DEFAULTS,
      ...rest,
      ...readSecret('url', urlFile, rest, at, reading),
      ...readSecret('password', passwordFile, rest, at, reading),
      sentinel: {
        ...sentinels,
        ...readSecret('password', sentinelFile, sentinels, `${at}.sentinel`, reading),
      },
      cluster,
    },
  }
}

/** @returns the secret that `file` has, if it is given and can be read: there is a problem otherwise */
function readSecret(
  name: 'url' | 'password',
  file: string | undefined,
  written: { readonly url?: string; readonly password?: string },
  source: string,
  { files, problems }: Reading,
): { url?: string; password?: string } {
  if (file === undefined) return {}
  const given = { source: `${source}.${name}File`, value: file }
  if (written[name] !== undefined) {
    problems.push({ ...given, problem: `is set twice: also as ${source}.${name}`, path: 'regions' })
  }
  const text = files.readText(given, file, 'regions')
  if (text === '') problems.push({ ...given, problem: 'names an empty file', path: 'regions' })
  return text === null ? {} : { [name]: text }
}

/** @returns one problem for each region that names no single Redis, or has another's name */
export function findRegionProblems(regions: readonly RegionSettings[]): ConfigProblem[] {
  return regions.flatMap(({ name, redis }, index) => {
    const problems = [
      ...(regions.findIndex(other => other.name === name) < index ? ['has the name of another region'] : []),
      ...findRedisProblems(redis),
    ]
    return problems.map(problem => ({ source: `regions, at ${name}`, problem, path: 'regions' }))
  })
}

/** At the console, where each region has its own. */
export function findSecondRedis({ regions, redis }: Pick<Config, 'regions' | 'redis'>): ConfigProblem[] {
  if (regions.length === 0 || findRedisTopology(redis) === null) return []
  const problem =
    'contradict each other at the console: with regions, each entry of regions has its own redis; remove redis here, and keep it at the gateways'
  return [{ source: 'redis, regions', problem }]
}

function findRedisProblems(redis: RegionSettings['redis']): string[] {
  const { url, sentinel, cluster } = redis
  const isSentinel = sentinel.name !== undefined || sentinel.urls.length > 0
  const kinds = [url !== undefined, isSentinel, cluster.urls.length > 0].filter(Boolean).length
  if (kinds !== 1) return ['needs exactly one of redis.url, redis.sentinel and redis.cluster']
  const topology = findRedisTopology(redis)
  if (topology === null || topology.kind === 'standalone') {
    if (url === undefined || !isRedisUrl(url)) return [URL_FORM]
    return findIdleParts(url).map(problem => `redis.url ${problem}`)
  }
  if (topology.kind === 'sentinel' && (topology.name === '' || topology.urls.length === 0)) {
    return ['needs both redis.sentinel.name and redis.sentinel.urls']
  }
  const encrypted = new Set(topology.urls.map(isEncryptedRedis))
  return encrypted.size > 1
    ? [`redis.${topology.kind}.urls must be rediss: (or valkeys:) addresses all of them, or none`]
    : []
}

const URL_FORM = 'redis.url must be redis://, rediss://, valkey:// or valkeys:// with a host'

/** An address that was read from a file has not passed the schema. */
function isRedisUrl(url: string): boolean {
  return formats['redis-url']?.accepts(url) === true
}
