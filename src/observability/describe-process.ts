import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { getHeapStatistics } from 'node:v8'
import type { Config } from '../config/schema.ts'
import type { Metrics } from './metrics.ts'

/** What is constant while a process runs. */
export interface Identity {
  readonly version: string
  /** The commit that an image was built from; `unknown` in a checkout. */
  readonly revision: string
  readonly node: string
  readonly planes: readonly string[]
  /** Of the effective settings: the same on every replica, but while a change is rolled out. */
  readonly configHash: string
}

export function describeProcess(metrics: Metrics, identity: Identity): void {
  const { planes, configHash, ...build } = identity
  metrics.buildInfo.set(build, 1)
  for (const plane of planes) metrics.configInfo.set({ plane, hash: configHash }, 1)
  metrics.heapLimit.set(getHeapStatistics().heap_size_limit)
}

/**
 * When the certificates expire that this process uses until it ends: files are read once, at start, here as well as
 * where they are used. One that cannot be read is complained of there.
 */
export function describeCertificates(
  metrics: Metrics,
  planes: readonly string[],
  { upstream, redis, origin }: Pick<Config, 'upstream' | 'redis' | 'origin'>,
): void {
  const set = (purpose: string, expiry: number | null) => {
    if (expiry !== null) metrics.certificateNotAfter.set({ purpose }, expiry)
  }
  if (redis.url !== undefined) set('redis_ca', latestOf(expiriesIn(redis.caFile)))
  if (!planes.includes('gateway')) return
  set('upstream_client', earliestOf(expiriesIn(upstream.tls.certFile)))
  set('upstream_ca', latestOf(expiriesIn(upstream.tls.caFile)))
  if (origin.url !== undefined) set('origin_ca', latestOf(expiriesIn(origin.caFile)))
}

/** A chain is as good as the link that breaks first. */
function earliestOf(expiries: readonly number[]): number | null {
  return expiries.length === 0 ? null : Math.min(...expiries)
}

/** A bundle of authorities holds the old beside the new one; it is of no use once the last has expired. */
function latestOf(expiries: readonly number[]): number | null {
  return expiries.length === 0 ? null : Math.max(...expiries)
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** @returns seconds since the epoch */
function expiriesIn(file: string | undefined): number[] {
  if (file === undefined) return []
  try {
    const texts = readFileSync(file, 'utf8').match(CERTIFICATE) ?? []
    return texts.map(text => new X509Certificate(text).validToDate.getTime() / 1000)
  } catch {
    return []
  }
}
