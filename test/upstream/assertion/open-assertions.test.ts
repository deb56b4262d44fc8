import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import { expect, test } from 'vitest'
import type { PrepareReload } from '../../../src/config/reloadable.ts'
import type { Config } from '../../../src/config/schema/schema.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { openAssertions } from '../../../src/upstream/assertion/open-assertions.ts'
import { exampleGrant } from '../../domain/examples.ts'
import { assertionKeyPem } from '../../support/assertion-keys.ts'
import { defaultConfig } from '../../support/default-config.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { metricValue } from '../../support/metric-value.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'

const GRANT = exampleGrant({
  id: 'key_01',
  workspaceId: 'ws_1',
  scopes: ['files:read'],
  hint: 'wsk_…abcd',
  expiresAtMs: Number.MAX_SAFE_INTEGER,
})

/** Assertions with keys in files, as a gateway has them. */
async function start(...names: string[]) {
  const directory = temporaryDirectory()
  const fileOf = (name: string) => join(directory, name)
  for (const name of ['a', 'b', 'c']) writeFileSync(fileOf(name), assertionKeyPem())
  const configWith = (files: readonly string[]): Config => {
    const config = defaultConfig()
    const assertion = { ...config.upstream.assertion, issuer: 'postern', audience: 'files' }
    const upstream = { ...config.upstream, assertion: { ...assertion, keyFiles: files.map(fileOf) } }
    return { ...config, upstream }
  }
  const prepares: PrepareReload<Config>[] = []
  const clock = new ManualClock()
  const metrics = createMetrics()
  const logger = new LogSpy()
  const assertions = await openAssertions({
    config: configWith(names),
    onReload: prepare => void prepares.push(prepare),
    metrics,
    logger,
    clock,
    nowMs: () => clock.wallMs(),
  })
  return {
    assertions,
    clock,
    metrics,
    logger,
    replaceKey: (name: string, text = assertionKeyPem()) => writeFileSync(fileOf(name), text),
    reload: (...files: string[]) => {
      for (const apply of prepares.map(prepare => prepare(configWith(files)))) apply()
    },
  }
}

async function started(...names: string[]) {
  const { assertions, ...others } = await start(...names)
  if (assertions === null) throw new Error('Assertions are off')
  const kids = () => assertions.publicKeys().keys.map(({ kid }) => kid)
  const signer = async () => decodeProtectedHeader(await assertions.assertionFor(GRANT, '/')).kid
  return { assertions, kids, signer, ...others }
}

test('the first key signs, and the public keys of all files verify', async () => {
  const { assertions, clock, kids, metrics } = await started('a', 'b')
  const assertion = await assertions.assertionFor(GRANT, '/')
  const { payload, protectedHeader } = await jwtVerify(
    assertion,
    createLocalJWKSet({ keys: assertions.publicKeys().keys.map(key => ({ ...key })) }),
    { issuer: 'postern', audience: 'files', currentDate: new Date(clock.wallMs()) },
  )
  expect(protectedHeader).toEqual({ alg: 'EdDSA', typ: 'JWT', kid: kids()[0] })
  expect(payload).toMatchObject({ sub: 'key_01', workspace_id: 'ws_1', scope: 'files:read' })
  expect(JSON.stringify(assertions.publicKeys())).not.toContain('"d"')
  expect(assertions.assertionFor(GRANT, '/')).toBe(assertion)
  expect(await metricValue(metrics.assertions, { result: 'signed' })).toBe(1)
  expect(await metricValue(metrics.assertions, { result: 'reused' })).toBe(1)
  const { values } = await metrics.assertions.get()
  expect(values.map(({ labels }) => labels.result).sort()).toEqual(['failed', 'reused', 'signed'])
  const signing = await metrics.assertionSigning.get()
  expect(signing.values.filter(({ value }) => !Number.isFinite(value))).toEqual([])
})

test('a key that is listed second is published before it signs, and the one before it afterwards', async () => {
  const { assertions, kids, signer, reload, logger } = await started('a')
  const [a] = kids()
  expect(await signer()).toBe(a)
  reload('a', 'b')
  const [, b] = kids()
  expect([kids(), await signer()]).toEqual([[a, b], a])
  expect(logger.lines).toEqual([])
  // The assertion that was signed with the former key is not used again.
  reload('b', 'a')
  expect([kids(), await signer()]).toEqual([[b, a], b])
  expect(logger.lines).toEqual([
    { level: 'info', fields: { kid: b }, message: 'assertion signing key changed' },
  ])
  reload('b')
  expect([kids(), await signer()]).toEqual([[b], b])
  expect(assertions.publicKeys().keys).toHaveLength(1)
})

test('a reload that leaves the first key as it is goes on with its assertions', async () => {
  const { assertions, reload } = await started('a')
  const assertion = await assertions.assertionFor(GRANT, '/')
  reload('a', 'b')
  expect(assertions.assertionFor(GRANT, '/')).toBe(assertion)
})

test('a file that holds no key is rejected, and the former keys stay in use', async () => {
  const { kids, signer, reload, replaceKey } = await started('a', 'b')
  const before = kids()
  replaceKey('a', 'half a file')
  expect(() => reload('a', 'b')).toThrow(
    'upstream.assertion.keyFiles, at 0: names a file that holds no private key in PEM. Make one with',
  )
  expect([kids(), await signer()]).toEqual([before, before[0]])
})

test('an error names the setting that is missing, or the file that cannot be read', async () => {
  await expect(start('missing')).rejects.toThrow('upstream.assertion.keyFiles, at 0,')
  for (const setting of ['issuer', 'audience'] as const) {
    const config = defaultConfig()
    const assertion = { ...config.upstream.assertion, issuer: 'postern', audience: 'files', keyFiles: ['/x'] }
    await expect(
      openAssertions({
        config: {
          ...config,
          upstream: { ...config.upstream, assertion: { ...assertion, [setting]: undefined } },
        },
        onReload: () => {},
        metrics: createMetrics(),
        logger: new LogSpy(),
        clock: new ManualClock(),
        nowMs: () => 0,
      }),
    ).rejects.toThrow('upstream.assertion.issuer and upstream.assertion.audience are required')
  }
})

test('only a restart turns assertions on or off', async () => {
  const on = await started('a')
  expect(() => on.reload()).toThrow('restart the process to turn assertions on or off')
  const off = await start()
  expect(off.assertions).toBeNull()
  expect(() => off.reload('a')).toThrow('restart the process to turn assertions on or off')
  expect(() => off.reload()).not.toThrow()
})
