import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { neverReloads } from '../../../src/config/reloadable.ts'
import { fingerprintSecret } from '../../../src/domain/key/secret.ts'
import { compareFingerprints, SigningSecretsCheck } from '../../../src/keys/reports/settings-checks.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import { keyStoreConfig } from '../../support/key-store-config.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { metricValue } from '../../support/metric-value.ts'

const A = randomBytes(32)
const B = randomBytes(32)
const C = randomBytes(32)
const fingerprints = (...secrets: Buffer[]) => secrets.map(fingerprintSecret)

describe('a gateway verifies the keys of a key service', () => {
  test.each([
    ['that has the same secret', [A], [A], 'match'],
    ['that signs with a secret which the gateway knows as a further one', [A, B], [B, A], 'match'],
    ['that knows a further secret', [A], [A, B], 'match'],
    ['only in part, if it signs with a secret that the gateway lacks', [A], [B, A], 'partial'],
    ['never, if they share no secret', [A], [B, C], 'mismatch'],
    ['perhaps, if it names no secrets', [A], [], 'unknown'],
  ] as const)('%s', (_, own, theirs, expected) => {
    expect(compareFingerprints(fingerprints(...own), fingerprints(...theirs))).toBe(expected)
  })
})

describe('a gateway with a signing secret of its own', () => {
  let metrics: Metrics
  let log: LogSpy
  const create = (more: object = {}) => {
    const { keys } = keyStoreConfig({})
    const own = { ...keys, signingSecrets: [A.toString('base64')], ...more }
    return new SigningSecretsCheck(own, { log, metrics }, neverReloads)
  }
  beforeEach(() => {
    metrics = createMetrics()
    log = new LogSpy()
  })

  test('logs one error, and sets the metric until the secrets match', async () => {
    const check = create()
    expect(check.state).toBe('unknown')
    check.observe(fingerprints(B))
    check.observe(fingerprints(B))
    expect([check.state, await metricValue(metrics.signingSecretsMismatch)]).toEqual(['mismatch', 1])
    expect(log.lines).toEqual([
      expect.objectContaining({ level: 'error', message: 'signing secrets differ, every key is rejected' }),
    ])
    check.observe(fingerprints(B, A))
    expect([check.state, await metricValue(metrics.signingSecretsMismatch)]).toEqual(['partial', 1])
    expect(log.count('signing secret missing, new keys are rejected')).toBe(1)
    check.observe([])
    expect(check.state).toBe('partial')
    check.observe(fingerprints(A))
    expect([check.state, await metricValue(metrics.signingSecretsMismatch)]).toEqual(['match', 0])
    expect(log.count('signing secrets match again')).toBe(1)
    expect(log.text).not.toContain(A.toString('base64'))
  })

  test('logs nothing if they match from the start', () => {
    create().observe(fingerprints(A))
    expect(log.lines).toEqual([])
  })

  test('compares nothing if keys have no MAC', () => {
    const check = create({ format: 'opaque' })
    check.observe(fingerprints(B))
    expect([check.state, log.lines]).toEqual(['off', []])
  })
})
