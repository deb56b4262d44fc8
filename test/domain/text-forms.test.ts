import { createSecretKey } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { KEY_INVALID } from '../../src/domain/denial.ts'
import { parseInstant } from '../../src/domain/form/instant.ts'
import { isScope, OTHER_WORKSPACES } from '../../src/domain/key/key-record.ts'
import { endsAsKey, findStrayKeys, isUnsignedKey, mintSecret } from '../../src/domain/key/secret.ts'
import { certificatesIn } from '../../src/domain/pem.ts'
import { DEFAULT_REGION, REGION_NAME } from '../../src/domain/region.ts'
import { describeApi } from '../../src/domain/route/describe-api.ts'
import { compileRoutes, matchRoute } from '../../src/domain/route/route.ts'
import { decodeRecord, encodeRecord } from '../../src/domain/wire.ts'
import { exampleRecord } from './examples.ts'

const SIGNED = { kind: 'signed', prefix: 'wsk_', signingKeys: [] } as const
const DIGEST = 'ab'.repeat(32)

test.each([
  ['a', true],
  ['files:read', true],
  ['!#[]~', true],
  ['a'.repeat(64), true],
  ['a'.repeat(65), false],
  ['', false],
  ['files read', false],
  ['"a', false],
  ['a"', false],
  ['a\\', false],
  ['é', false],
])('the text %s is a scope: %s', (text, is) => {
  expect(isScope(text)).toBe(is)
})

test.each([
  '+012027-02-18T09:00:00Z',
  '2027-02-18T09:00:00Z ',
  '2027-02-18T09:00:00',
  '2027-02-18',
  '2027-02-30T09:00:00Z',
  '2027-02-18T24:00:00Z',
])('an expiry of %j is rejected', text => {
  expect(parseInstant(text)).toBeNull()
})

describe('a record', () => {
  const body = JSON.parse(encodeRecord(exampleRecord(), DIGEST, null))
  const isRead = (changes: object) => decodeRecord(JSON.stringify({ ...body, ...changes }), DIGEST, null).ok

  test('may have instants with up to nine digits of a second and with an offset, and no others', () => {
    const read = ['2027-02-18T09:00:00Z', '2027-02-18T09:00:00.123456789Z', '2027-02-18T09:00:00+01:00']
    const rejected = ['2027-02-18T09:00:00.1234567890Z', '2027-02-30T09:00:00Z', '2027-02-18T09:00:00']
    expect(read.map(expiresAt => isRead({ expiresAt }))).toEqual([true, true, true])
    expect(rejected.map(expiresAt => isRead({ expiresAt }))).toEqual([false, false, false])
    expect(isRead({ expiresAt: read.slice(0, 1) })).toBe(false)
  })

  test('may have a hint of 128 characters', () => {
    expect([128, 129].map(length => isRead({ hint: 'x'.repeat(length) }))).toEqual([true, false])
  })
})

test('only keys that no one signs cost a lookup without a look at their MAC', () => {
  const prefix = 'wsk_'
  expect(isUnsignedKey('wsk_1', { kind: 'opaque' })).toBe(true)
  expect(isUnsignedKey('wsk_1', SIGNED)).toBe(false)
  expect(isUnsignedKey('other', SIGNED)).toBe(false)
  expect(['wsk_1', 'other'].map(key => isUnsignedKey(key, { ...SIGNED, prefix, kind: 'any' }))).toEqual([
    ...[false, true],
  ])
})

test('a text that is shorter than a key does not end as one, even if its prefix could be a part of it', () => {
  const key = mintSecret('wsk', new Uint8Array(32), createSecretKey(Buffer.alloc(32))).reveal()
  expect([endsAsKey(key, 'wsk'), endsAsKey(`x ${key}`, 'wsk')]).toEqual([true, true])
  for (const length of [1, 2, 3, 4]) expect(endsAsKey(key.slice(0, -length), 'wsk')).toBe(false)
  expect(['', 'wsk'].some(text => endsAsKey(text, 'wsk'))).toBe(false)
})

test.each([
  ['Bearer 12345678', ['12345678']],
  ['Bearer 1234567', []],
  ['12345678', ['12345678']],
])('credentials of at least eight characters must not stand elsewhere: %s', (field, credentials) => {
  expect(findStrayKeys(['Authorization', field], null)).toEqual({ prefix: null, credentials })
})

test('a file without certificates holds none', () => {
  expect(certificatesIn('-----BEGIN PRIVATE KEY-----')).toEqual([])
})

test('an invalid key is denied as RFC 6750 says', () => {
  expect(KEY_INVALID).toEqual({
    status: 401,
    code: 'key_invalid',
    text: 'The API key is not valid',
    challenge: ', error="invalid_token", error_description="The API key is not valid"',
  })
})

test('names in metrics and settings that operators may have written down', () => {
  expect([OTHER_WORKSPACES, DEFAULT_REGION]).toEqual(['other', 'default'])
  const pattern = new RegExp(REGION_NAME)
  expect(['eu-1', 'a'.repeat(32)].every(name => pattern.test(name))).toBe(true)
  expect(['', 'EU', 'a b', 'a'.repeat(33)].some(name => pattern.test(name))).toBe(false)
})

describe('the description of the API', () => {
  const described = (gatewayUrl?: string) =>
    describeApi(
      { routes: [{ name: 'one', path: '/w/{workspaceId}' }], scopes: {}, console: { gatewayUrl } },
      '1',
    )

  test('names the gateway only if its address is set', () => {
    expect(described('https://api.example/')['servers']).toEqual([{ url: 'https://api.example' }])
    expect(described()).not.toHaveProperty('servers')
  })

  test('has no summary for a route without one', () => {
    expect(described().paths['/w/{workspaceId}']?.get).not.toHaveProperty('summary')
  })
})

test('of two routes that fit, the one whose literal segment comes first is taken, in any order of settings', () => {
  const routes = [
    { name: 'parameter first', path: '/{one}/b' },
    { name: 'literal first', path: '/a/{two}' },
  ]
  for (const configs of [routes, routes.toReversed()]) {
    expect(matchRoute(compileRoutes(configs), '/a/b')?.route.name).toBe('literal first')
  }
})
