import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type AssertionClaims,
  type AssertionSettings,
  assertionClaims,
  createAssertions,
  isReusable,
} from '../../../src/upstream/assertion/assertions.ts'
import { exampleGrant } from '../../domain/examples.ts'

const SETTINGS: AssertionSettings = { issuer: 'postern', audience: 'files', lifetimeSeconds: 60, bind: 'key' }
const GRANT = exampleGrant({
  id: 'key_01',
  workspaceId: 'ws_1',
  scopes: ['files:read', 'workspace:read'],
  hint: 'wsk_…abcd',
  expiresAtMs: Number.MAX_SAFE_INTEGER,
})
const NOW_MS = 1_800_000_000_500

describe('the claims of an assertion', () => {
  test('name the gateway, the upstream, the key, its workspace and its scopes, for a minute', () => {
    expect(assertionClaims(SETTINGS, GRANT, null, NOW_MS)).toEqual({
      iss: 'postern',
      aud: 'files',
      sub: 'key_01',
      workspace_id: 'ws_1',
      scope: 'files:read workspace:read',
      iat: 1_800_000_000,
      exp: 1_800_000_060,
    })
  })

  test('name method and target where they are bound to one request', () => {
    const claims = assertionClaims(SETTINGS, GRANT, '/api/v1/workspaces/ws_1/files?limit=5', NOW_MS)
    expect(claims).toMatchObject({ htm: 'GET', htu: '/api/v1/workspaces/ws_1/files?limit=5' })
  })
})

describe('an assertion is reused', () => {
  const signed = { grant: GRANT, issuedAtMs: NOW_MS }

  test('at any time within the first half of its life, and at no other', () => {
    const lifetimes = fc.integer({ min: 5, max: 60 })
    const ages = fc.integer({ min: -100_000, max: 100_000 })
    fc.assert(
      fc.property(lifetimes, ages, (lifetimeSeconds, ageMs) => {
        const reused = isReusable(signed, { ...GRANT }, NOW_MS + ageMs, lifetimeSeconds)
        expect(reused).toBe(ageMs >= 0 && ageMs * 2 < lifetimeSeconds * 1000)
      }),
    )
  })

  test.each([
    ['version', { version: 2 }],
    ['workspace', { workspaceId: 'ws_2' }],
    ['scopes', { scopes: ['files:read'] }],
    ['id', { id: 'key_02' }],
  ])('not for a record with another %s', (_, changed) => {
    expect(isReusable(signed, { ...GRANT, ...changed }, NOW_MS, 60)).toBe(false)
  })
})

/** Signs when the test says so. */
function scripted(settings: Partial<AssertionSettings> = {}) {
  const requested: {
    claims: AssertionClaims
    resolve: (text: string) => void
    reject: (error: Error) => void
  }[] = []
  const state = { nowMs: NOW_MS, reused: 0 }
  const assertions = createAssertions({
    settings: { ...SETTINGS, ...settings },
    sign: claims => {
      const { promise, resolve, reject } = Promise.withResolvers<string>()
      requested.push({ claims, resolve, reject })
      return promise
    },
    reused: { inc: () => (state.reused += 1) },
    nowMs: () => state.nowMs,
  })
  return { assertions, requested, state }
}

describe('requests of one key', () => {
  test('share one signature while it is being made, and get it at once afterwards', async () => {
    const { assertions, requested, state } = scripted()
    const waiting = [assertions.assertionFor(GRANT, '/a'), assertions.assertionFor(GRANT, '/b')]
    expect(requested).toHaveLength(1)
    requested[0]?.resolve('one')
    expect(await Promise.all(waiting)).toEqual(['one', 'one'])
    expect(assertions.assertionFor({ ...GRANT }, '/c')).toBe('one')
    expect(state.reused).toBe(2)
  })

  test('get a new one after half of its life, and after the clock was set back', async () => {
    const { assertions, requested, state } = scripted()
    void assertions.assertionFor(GRANT, '/')
    requested[0]?.resolve('one')
    await Promise.resolve()
    state.nowMs = (requested[0]?.claims.iat ?? 0) * 1000 + 29_999
    expect(assertions.assertionFor(GRANT, '/')).toBe('one')
    state.nowMs += 1
    void assertions.assertionFor(GRANT, '/')
    expect(requested[1]?.claims.iat).toBe(Math.floor(state.nowMs / 1000))
    requested[1]?.resolve('two')
    await Promise.resolve()
    state.nowMs -= 100_000
    void assertions.assertionFor(GRANT, '/')
    expect(requested[2]?.claims.iat).toBe(Math.floor(state.nowMs / 1000))
  })

  test('get a new one as soon as the record changes, never that of another record', async () => {
    const { assertions, requested } = scripted()
    void assertions.assertionFor(GRANT, '/')
    requested[0]?.resolve('both scopes')
    await Promise.resolve()
    void assertions.assertionFor({ ...GRANT, version: 2, scopes: ['files:read'] }, '/')
    void assertions.assertionFor({ ...GRANT, id: 'key_02' }, '/')
    expect(requested.map(({ claims }) => [claims.sub, claims.scope])).toEqual([
      ['key_01', 'files:read workspace:read'],
      ['key_01', 'files:read'],
      ['key_02', 'files:read workspace:read'],
    ])
  })

  test('fail together if it cannot be signed; the next request tries again', async () => {
    const { assertions, requested } = scripted()
    const waiting = [assertions.assertionFor(GRANT, '/'), assertions.assertionFor(GRANT, '/')]
    requested[0]?.reject(new Error('no'))
    const settled = await Promise.allSettled(waiting)
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    const again = assertions.assertionFor(GRANT, '/')
    requested[1]?.resolve('again')
    expect(await again).toBe('again')
  })

  test('keep the newer assertion if an older one could not be signed', async () => {
    const { assertions, requested } = scripted()
    const older = assertions.assertionFor(GRANT, '/')
    const changed = { ...GRANT, version: 2 }
    void assertions.assertionFor(changed, '/')
    requested[1]?.resolve('newer')
    requested[0]?.reject(new Error('no'))
    await Promise.allSettled([older])
    expect(assertions.assertionFor(changed, '/')).toBe('newer')
  })

  test('are signed one by one where an assertion is bound to its request', () => {
    const { assertions, requested, state } = scripted({ bind: 'request' })
    for (const target of ['/a', '/a', '/b']) void assertions.assertionFor(GRANT, target)
    expect(requested.map(({ claims }) => claims.htu)).toEqual(['/a', '/a', '/b'])
    expect(state.reused).toBe(0)
  })
})
