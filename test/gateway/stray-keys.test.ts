import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { findKeyPrefix, type KeyFormat, mintSecret } from '../../src/domain/key/secret.ts'
import { dropStrayKeys } from '../../src/gateway/credentials.ts'
import { SIGNING_KEY } from '../domain/examples.ts'

const SIGNED: KeyFormat = { kind: 'signed', prefix: 'wsk_', signingKeys: [SIGNING_KEY] }
const ANY: KeyFormat = { ...SIGNED, kind: 'any' }
const OPAQUE: KeyFormat = { kind: 'opaque' }
const KEY = mintSecret('wsk_', Buffer.alloc(32, 3), SIGNING_KEY).reveal()
const OTHER = mintSecret('wsk_', Buffer.alloc(32, 4), SIGNING_KEY).reveal()
const FOREIGN = '0123456789abcdef0123456789abcdef'

/** @returns the remaining fields, by names in lower case */
function remainingFields(fields: Record<string, string>, format: KeyFormat): IncomingMessage['headers'] {
  const headers = Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name.toLowerCase(), value]),
  )
  // The function reads no other part of a request.
  const request = { rawHeaders: Object.entries(fields).flat(), headers } as unknown as IncomingMessage
  dropStrayKeys(request, findKeyPrefix(format))
  return request.headers
}

/** @returns names of the remaining fields, in lower case */
const remaining = (fields: Record<string, string>, format: KeyFormat) =>
  Object.keys(remainingFields(fields, format))

const isDropped = (text: string, authorization: string, format: KeyFormat = SIGNED) =>
  !remaining({ 'X-Text': text, Authorization: authorization }, format).includes('x-text')

describe('a field that holds a key is removed', () => {
  test.each([
    ['the key of the request', KEY],
    ['another key', OTHER],
    ['a key with an invalid MAC', `wsk_${'0'.repeat(54)}`],
    ['a key within a longer text', `Mozilla/5.0 (key=${OTHER}; x)`],
    ['a key followed by other characters', `${OTHER}xyz`],
    ['a key after a repeated prefix', `wsk_wsk_${OTHER}`],
    ['a key after many repeated prefixes', 'wsk_0'.repeat(50) + OTHER],
  ])('%s', (_, text) => {
    expect(isDropped(text, `Bearer ${KEY}`)).toBe(true)
  })

  test.each([
    ['Bearer', `Bearer ${FOREIGN}`],
    ['another scheme', `Basic ${FOREIGN}`],
    ['a scheme and several spaces', `bearer   ${FOREIGN}`],
    ['no scheme', FOREIGN],
  ])('in any key format, if the request sends the same key by %s', (_, authorization) => {
    for (const format of [SIGNED, ANY, OPAQUE]) {
      expect(isDropped(`00-${FOREIGN}-00f067aa0ba902b7-01`, authorization, format)).toBe(true)
      expect(isDropped(FOREIGN.slice(1), authorization, format)).toBe(false)
    }
  })

  test('if keys of both kinds are accepted: a signed key by its form, another one if the request sends it', () => {
    expect(isDropped(OTHER, `Bearer ${FOREIGN}`, ANY)).toBe(true)
    const endsLikeSigned = `old-wsk_${'a-'.repeat(27)}`
    expect(isDropped(endsLikeSigned, `Bearer ${endsLikeSigned}`, ANY)).toBe(true)
  })

  test('if the key is in one of two Authorization fields', () => {
    const fields = { Authorization: 'Bearer x', AUTHORIZATION: `Bearer ${FOREIGN}`, Accept: FOREIGN }
    expect(remaining(fields, OPAQUE)).toEqual(['authorization'])
  })

  test('with any name except Authorization', () => {
    const names = ['Accept', 'Cookie', 'Host', 'If-None-Match', 'X-Request-Id', 'traceparent', 'tracestate']
    const fields = Object.fromEntries([...names, 'Authorization'].map(name => [name, `Bearer ${KEY}`]))
    expect(remaining({ ...fields, 'User-Agent': 'curl' }, SIGNED)).toEqual(['authorization', 'user-agent'])
  })
})

describe('of X-Forwarded-For only the entries that hold a key are removed', () => {
  const redacted = (addresses: string, authorization = `Bearer ${KEY}`, format: KeyFormat = SIGNED) => {
    const fields = { 'X-Forwarded-For': addresses, Authorization: authorization }
    return remainingFields(fields, format)['x-forwarded-for']
  }

  test.each([
    [`${OTHER}, 198.51.100.7`, 'unknown, 198.51.100.7'],
    [`198.51.100.7,${KEY}`, '198.51.100.7,unknown'],
    [`a, ${KEY}, b, x${OTHER}`, 'a,unknown, b,unknown'],
  ])('%s', (addresses, rest) => {
    expect(redacted(addresses)).toBe(rest)
  })

  test('in any key format, if the request sends the same key', () => {
    for (const format of [SIGNED, ANY, OPAQUE]) {
      expect(redacted(`${FOREIGN}, 198.51.100.7`, `Bearer ${FOREIGN}`, format)).toBe('unknown, 198.51.100.7')
    }
  })

  test('and the whole list, if the credentials have a comma', () => {
    expect(redacted(`${FOREIGN},x, 198.51.100.7`, `Bearer ${FOREIGN},x`, OPAQUE)).toBe('unknown')
  })
})

describe('a field stays', () => {
  test.each([
    ['an ordinary text', 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140'],
    ['the beginning of a key', OTHER.slice(0, -1)],
    ['a key of another prefix', OTHER.replace('wsk_', 'abc_')],
    ['a hint', 'wsk_…x7Qf'],
    ['a digest', 'a'.repeat(64)],
    ['an empty text', ''],
  ])('that holds no key: %s', (_, text) => {
    expect(isDropped(text, `Bearer ${KEY}`)).toBe(false)
  })

  test.each(['a', 'Bearer', 'Bearer ', 'Bearer short', ''])(
    'if Authorization holds no possible secret: %j',
    authorization => {
      expect(isDropped('a short Bearer text', authorization, OPAQUE)).toBe(false)
    },
  )

  test('that looks like a signed key, if keys are opaque', () => {
    expect(isDropped(OTHER, `Bearer ${FOREIGN}`, OPAQUE)).toBe(false)
  })
})
