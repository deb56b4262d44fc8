import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { describeCertificates } from '../../src/observability/describe-process.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { issue, makeCertificates } from '../support/certificates.ts'
import { consoleConfig } from '../support/console.ts'
import { metricValue } from '../support/metric-value.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const certificates = await makeCertificates()
afterAll(() => certificates.remove())

const { upstream, redis, keyService, console } = consoleConfig({})
const DAY_SECONDS = 86_400
/** Expiry of these certificates. */
const IN_TWO_DAYS = Date.now() / 1000 + 2 * DAY_SECONDS

async function expiries(planes: readonly string[], settings: object): Promise<Record<string, number>> {
  const metrics = createMetrics()
  describeCertificates(metrics, planes, { upstream, redis, keyService, console, ...settings })
  const { values } = await metrics.certificateNotAfter.get()
  return Object.fromEntries(values.map(({ labels, value }) => [labels['purpose'], value]))
}

describe('the expiry of a certificate is exposed', () => {
  const { caFile, clientCertFile: certFile, clientKeyFile: keyFile } = certificates

  test('for each configured one, in seconds since the epoch, and no other', async () => {
    const found = await expiries(['gateway'], {
      upstream: { ...upstream, tls: { caFile, certFile, keyFile } },
      redis: { ...redis, url: 'rediss://r:6380', caFile },
      keyService: { ...keyService, url: 'https://o', tls: { caFile, certFile, keyFile } },
    })
    expect(Object.keys(found).sort()).toEqual([
      'key_service_ca',
      'key_service_client',
      'redis_ca',
      'upstream_ca',
      'upstream_client',
    ])
    for (const value of Object.values(found)) expect(Math.abs(value - IN_TWO_DAYS)).toBeLessThan(120)
    expect(await expiries(['gateway'], {})).toEqual({})
  })

  test('for every kind of Redis', async () => {
    const found = await expiries(['gateway'], {
      redis: { ...redis, sentinel: { name: 'p', urls: ['rediss://s'] }, caFile },
    })
    expect(Object.keys(found)).toEqual(['redis_ca'])
  })

  test('but the console exposes none of the upstream’s', async () => {
    const found = await expiries(['console'], {
      upstream: { ...upstream, tls: { caFile } },
      redis: { ...redis, url: 'rediss://r:6380', caFile },
      console: { ...console, oidc: { ...console.oidc, caFile } },
    })
    expect(Object.keys(found).sort()).toEqual(['oidc_ca', 'redis_ca'])
  })

  test('as the last expiry of a bundle of authorities, and the first of a certificate chain', async () => {
    const bundle = join(temporaryDirectory(), 'bundle.pem')
    const old = await issue('old', { days: 1 })
    writeFileSync(bundle, `${old.cert}${readFileSync(caFile)}`)
    const found = await expiries(['gateway'], {
      upstream: { ...upstream, tls: { caFile: bundle, certFile: bundle, keyFile } },
    })
    expect(Math.abs((found['upstream_ca'] ?? 0) - IN_TWO_DAYS)).toBeLessThan(120)
    expect(Math.abs((found['upstream_client'] ?? 0) - IN_TWO_DAYS + DAY_SECONDS)).toBeLessThan(120)
  })

  test('but not for an invalid file, which the part that uses it reports', async () => {
    for (const file of [keyFile, '/nowhere'])
      expect(await expiries(['gateway'], { upstream: { ...upstream, tls: { caFile: file } } })).toEqual({})
  })
})

describe('a process exposes the metrics of its parts', () => {
  test('and no others', async () => {
    const namesOf = async (...parts: Parameters<typeof createMetrics>[0] & object) =>
      (await createMetrics(parts).registry.getMetricsAsJSON()).map(metric => metric.name)
    const gateway = await namesOf('gateway', 'redis', 'changes')
    const console = await namesOf('console', 'redis')
    const both = gateway.filter(name => console.includes(name) && name.startsWith('postern_'))
    expect(both).toEqual([
      'postern_draining',
      'postern_build_info',
      'postern_config_info',
      'postern_tls_cert_not_after_seconds',
      'postern_log_lines_dropped_total',
      'postern_connections_closed_total',
      'postern_config_last_reload_success',
      'postern_config_last_reload_timestamp_seconds',
      'postern_heap_limit_bytes',
      'postern_redis_commands_total',
      'postern_redis_command_duration_seconds',
      'postern_redis_up',
      'postern_redis_failing',
      'postern_redis_reconnects_total',
    ])
    expect(await namesOf('gateway')).not.toContain('postern_redis_up')
    expect(await namesOf('gateway')).not.toContain('postern_key_invalidation_connected')
  })

  test('and counting in a part that does not run has no effect', async () => {
    const metrics = createMetrics(['gateway'])
    metrics.redisUp.set(1)
    metrics.keyOperations.inc({ operation: 'issue', outcome: 'ok' })
    expect(await metrics.registry.metrics()).not.toMatch(/postern_(redis|key_operations)/)
    expect(await metricValue(metrics.redisUp)).toBe(1)
  })
})
