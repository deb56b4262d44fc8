import { readFileSync } from 'node:fs'
import type { Config } from '../config/schema/schema.ts'
import { certificatesIn } from '../domain/pem.ts'
import { findRedisTopology } from '../domain/redis-address.ts'
import type { Metrics } from './metrics/metrics.ts'

/** Facts about a process that the metrics show. */
interface Identity {
  readonly version: string
  /** The commit that the image was built from; `unknown` in a checkout. */
  readonly revision: string
  readonly node: string
  readonly planes: readonly string[]
  /** Short hash of the effective settings: equal on all replicas, except while a change is rolled out. */
  readonly configHash: string
  /** Limit of the old heap generation: V8 ends the process when it is full. */
  readonly heapLimitBytes: number
}

export function describeProcess(metrics: Metrics, identity: Identity): void {
  const { planes, configHash, heapLimitBytes, ...build } = identity
  metrics.buildInfo.set(build, 1)
  describeConfig(metrics, planes, configHash)
  metrics.heapLimit.set(heapLimitBytes)
}

/** Replaces the hash of the settings. Called again after each reload. */
export function describeConfig(metrics: Metrics, planes: readonly string[], hash: string): void {
  metrics.configInfo.reset()
  for (const plane of planes) metrics.configInfo.set({ plane, hash }, 1)
}

/**
 * Sets the expiry of the certificates used for new connections. Called again after each reload. A file that cannot be read
 * is skipped: the part that uses it reports the error.
 */
export function describeCertificates(
  metrics: Metrics,
  planes: readonly string[],
  { upstream, redis, keyService, console }: Pick<Config, 'upstream' | 'redis' | 'keyService' | 'console'>,
): void {
  const set = (purpose: string, expiry: number | null) => {
    if (expiry !== null) metrics.certificateNotAfter.set({ purpose }, expiry)
  }
  metrics.certificateNotAfter.reset()
  if (findRedisTopology(redis) !== null) set('redis_ca', latest(expiriesIn(redis.caFile)))
  if (planes.includes('console')) {
    set('oidc_ca', latest(expiriesIn(console.oidc.caFile)))
    set('internal_server', earliest(expiriesIn(console.internal.tls.certFile)))
    set('internal_client_ca', latest(expiriesIn(console.internal.tls.clientCaFile)))
  }
  if (!planes.includes('gateway')) return
  set('upstream_client', earliest(expiriesIn(upstream.tls.certFile)))
  set('upstream_ca', latest(expiriesIn(upstream.tls.caFile)))
  if (keyService.url === undefined) return
  set('key_service_client', earliest(expiriesIn(keyService.tls.certFile)))
  set('key_service_ca', latest(expiriesIn(keyService.tls.caFile)))
}

/** A chain is invalid as soon as its first certificate expires. */
function earliest(expiries: readonly number[]): number | null {
  return expiries.length === 0 ? null : Math.min(...expiries)
}

/** A bundle of authorities may contain an old and a new one; it is useless once the last has expired. */
function latest(expiries: readonly number[]): number | null {
  return expiries.length === 0 ? null : Math.max(...expiries)
}

/** @returns seconds since the epoch */
function expiriesIn(file: string | undefined): number[] {
  if (file === undefined) return []
  try {
    return certificatesIn(readFileSync(file, 'utf8')).map(({ validToDate }) => validToDate.getTime() / 1000)
  } catch {
    return []
  }
}
