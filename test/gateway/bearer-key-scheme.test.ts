import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { type KeyFormat, mintSecret } from '../../src/domain/key/secret.ts'
import { readBearerKey } from '../../src/gateway/bearer-key-scheme.ts'
import { SIGNING_KEY } from '../domain/examples.ts'

const SIGNED: KeyFormat = { kind: 'signed', prefix: 'wsk_', signingKeys: [SIGNING_KEY] }
const OPAQUE: KeyFormat = { kind: 'opaque' }
const KEY = mintSecret('wsk_', Buffer.alloc(32, 3), SIGNING_KEY).reveal()
const DIGEST = createHash('sha256').update(KEY).digest('hex')

describe('a key is read', () => {
  it.each([`Bearer ${KEY}`, `bearer ${KEY}`, `BEARER ${KEY}`, `bEaReR ${KEY}`, `Bearer  ${KEY}`])(
    'from the scheme Bearer in any case, followed by spaces: %s',
    field => {
      expect(readBearerKey([field], SIGNED)).toEqual({ ok: true, digest: DIGEST })
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

  it('is not required of an opaque key', () => {
    expect(readBearerKey([`Bearer ${forged}`], OPAQUE)).toMatchObject({ ok: true })
  })
})
