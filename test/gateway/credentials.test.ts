import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { digestKey, type KeyFormat, mintSecret } from '../../src/domain/key/secret.ts'
import { readBearerKey } from '../../src/gateway/credentials.ts'
import { SIGNING_KEY } from '../domain/examples.ts'

const SIGNED: KeyFormat = { kind: 'signed', prefix: 'wsk_', signingKeys: [SIGNING_KEY] }
const ANY: KeyFormat = { ...SIGNED, kind: 'any' }
const OPAQUE: KeyFormat = { kind: 'opaque' }
const KEY = mintSecret('wsk_', Buffer.alloc(32, 3), SIGNING_KEY).reveal()
const DIGEST = createHash('sha256').update(KEY).digest('hex')

describe('a key is read', () => {
  it.each([`Bearer ${KEY}`, `bearer ${KEY}`, `BEARER ${KEY}`, `bEaReR ${KEY}`, `Bearer  ${KEY}`])(
    'from the scheme Bearer in any case, followed by spaces: %s',
    field => {
      expect(readBearerKey([field], SIGNED)).toEqual({ ok: true, digest: DIGEST, isUnsigned: false })
    },
  )

  it('and only its digest is returned', () => {
    expect(JSON.stringify(readBearerKey([`Bearer ${KEY}`], SIGNED))).not.toContain(KEY.slice(4, 12))
  })
})

describe('a request has no key', () => {
  it.each<[string, string[]]>([
    ['with no Authorization field', []],
    ['with two equal fields', [`Bearer ${KEY}`, `Bearer ${KEY}`]],
    ['with two fields, one of them empty', [`Bearer ${KEY}`, '']],
    ['with an empty field', ['']],
    ['with the scheme alone', ['Bearer']],
    ['with the scheme and spaces', ['Bearer  ']],
    ['with another scheme', [`Basic ${KEY}`]],
    ['with a scheme that begins with Bearer', [`Bearers ${KEY}`]],
    ['without a space after the scheme', [`Bearer${KEY}`]],
    ['with a tab in place of the space (RFC 6750, section 2.1)', [`Bearer\t${KEY}`]],
    ['with the key alone', [KEY]],
    ['with a space before the scheme', [` Bearer ${KEY}`]],
    ['with two schemes', [`Basic Bearer ${KEY}`]],
    ['with a colon after the scheme', [`Bearer: ${KEY}`]],
  ])('%s', (_, fields) => {
    expect(readBearerKey(fields, SIGNED)).toEqual({ ok: false, reason: 'key_missing' })
    expect(readBearerKey(fields, ANY)).toEqual({ ok: false, reason: 'key_missing' })
    expect(readBearerKey(fields, OPAQUE)).toEqual({ ok: false, reason: 'key_missing' })
  })
})

describe('a key of the wrong form costs no lookup', () => {
  it.each([
    `Bearer ${KEY} x`,
    `Bearer "${KEY}"`,
    `Bearer ${KEY} `,
    `Bearer  \t${KEY}`,
    `Bearer ${KEY},Bearer ${KEY}`,
    `Bearer ${KEY}\0`,
    `Bearer ${KEY.toLowerCase()}`,
    'Bearer __proto__',
    'Bearer *',
    'Bearer key:*',
    'Bearer k\r\nGET x',
    'Bearer {}',
    "Bearer ' OR 1=1--",
    'Bearer ../..',
    `Bearer ${'x'.repeat(8000)}`,
  ])('%j', field => {
    expect(readBearerKey([field], SIGNED)).toEqual({ ok: false, reason: 'key_malformed' })
  })
})

describe('the MAC of a key', () => {
  const forged = KEY.slice(0, -1) + (KEY.endsWith('A') ? 'B' : 'A')

  it('must be valid', () => {
    expect(readBearerKey([`Bearer ${forged}`], SIGNED)).toEqual({ ok: false, reason: 'key_malformed' })
  })

  it('is not checked again while memory has an entry of the whole key', () => {
    const asked: string[] = []
    const isProven = (digest: string) => asked.push(digest) > 0
    expect(readBearerKey([`Bearer ${forged}`], SIGNED, isProven)).toMatchObject({ ok: true })
    expect(asked).toEqual([digestKey(forged)])
  })

  it('is not required of an opaque key', () => {
    expect(readBearerKey([`Bearer ${forged}`], OPAQUE)).toMatchObject({ ok: true, isUnsigned: true })
  })
})

describe('beside signed keys, with the format `any`', () => {
  const forged = KEY.slice(0, -1) + (KEY.endsWith('A') ? 'B' : 'A')

  it('a key of this installation is read as with the format `signed`', () => {
    expect(readBearerKey([`Bearer ${KEY}`], ANY)).toEqual({ ok: true, digest: DIGEST, isUnsigned: false })
  })

  it.each([
    ['with an invalid MAC', forged],
    ['that is cut', KEY.slice(0, -1)],
    ['that is longer', `${KEY}0`],
    ['that is the prefix alone', 'wsk_'],
    ['of another system that uses the same prefix', 'wsk_0123456789abcdef'],
  ])('a key with the prefix costs no lookup %s', (_, key) => {
    expect(readBearerKey([`Bearer ${key}`], ANY)).toEqual({ ok: false, reason: 'key_malformed' })
  })

  it.each(['0123456789abcdef', 'sk-live_123.~+/==', KEY.slice(4), KEY.replace('wsk_', 'WSK_'), `x${KEY}`])(
    'any other bearer token may be a key of another system: %s',
    key => {
      const digest = createHash('sha256').update(key).digest('hex')
      expect(readBearerKey([`Bearer ${key}`], ANY)).toEqual({ ok: true, digest, isUnsigned: true })
    },
  )

  it.each(['a b', 'a=b', '=', '{}', 'é', 'x'.repeat(513)])('but nothing that is no bearer token: %j', key => {
    expect(readBearerKey([`Bearer ${key}`], ANY)).toEqual({ ok: false, reason: 'key_malformed' })
  })
})
