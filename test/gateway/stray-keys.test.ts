import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { type KeyFormat, keyPrefixOf, mintSecret } from '../../src/domain/key/secret.ts'
import { dropStrayKeys } from '../../src/gateway/stray-keys.ts'
import { SIGNING_KEY } from '../domain/examples.ts'

const SIGNED: KeyFormat = { kind: 'signed', prefix: 'wsk_', signingKeys: [SIGNING_KEY] }
const OPAQUE: KeyFormat = { kind: 'opaque' }
const KEY = mintSecret('wsk_', Buffer.alloc(32, 3), SIGNING_KEY).reveal()
const OTHER = mintSecret('wsk_', Buffer.alloc(32, 4), SIGNING_KEY).reveal()
const FOREIGN = '0123456789abcdef0123456789abcdef'

/** @returns names of the fields that are left, in small letters */
function left(fields: Record<string, string>, format: KeyFormat): string[] {
  const headers = Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name.toLowerCase(), value]),
  )
  // Of a request it reads nothing else.
  const request = { rawHeaders: Object.entries(fields).flat(), headers } as unknown as IncomingMessage
  dropStrayKeys(request, keyPrefixOf(format))
  return Object.keys(request.headers)
}

const heldIn = (text: string, authorization: string, format: KeyFormat = SIGNED) =>
  !left({ 'X-Text': text, Authorization: authorization }, format).includes('x-text')

describe('a field that holds a key counts as not sent', () => {
  test.each([
    ['the key of the request', KEY],
    ['another key', OTHER],
    ['one of no MAC', `wsk_${'0'.repeat(54)}`],
    ['one within a longer text', `Mozilla/5.0 (key=${OTHER}; x)`],
    ['one that goes on', `${OTHER}xyz`],
    ['one behind what looks like its beginning', `wsk_wsk_${OTHER}`],
    ['one behind many beginnings', 'wsk_0'.repeat(50) + OTHER],
  ])('%s', (_, text) => {
    expect(heldIn(text, `Bearer ${KEY}`)).toBe(true)
  })

  test.each([
    ['Bearer', `Bearer ${FOREIGN}`],
    ['another scheme', `Basic ${FOREIGN}`],
    ['a scheme and several spaces', `bearer   ${FOREIGN}`],
    ['no scheme', FOREIGN],
  ])('whatever the form of keys, where it is what the request presents by %s', (_, authorization) => {
    for (const format of [SIGNED, OPAQUE]) {
      expect(heldIn(`00-${FOREIGN}-00f067aa0ba902b7-01`, authorization, format)).toBe(true)
      expect(heldIn(FOREIGN.slice(1), authorization, format)).toBe(false)
    }
  })

  test('where it is in one of two Authorization fields', () => {
    const fields = { Authorization: 'Bearer x', AUTHORIZATION: `Bearer ${FOREIGN}`, Accept: FOREIGN }
    expect(left(fields, OPAQUE)).toEqual(['authorization'])
  })

  test('under whatever name, but Authorization itself', () => {
    const names = ['Accept', 'Cookie', 'Host', 'If-None-Match', 'X-Request-Id', 'traceparent', 'tracestate']
    const fields = Object.fromEntries([...names, 'Authorization'].map(name => [name, `Bearer ${KEY}`]))
    expect(left({ ...fields, 'User-Agent': 'curl' }, SIGNED)).toEqual(['authorization', 'user-agent'])
  })
})

describe('a field is kept', () => {
  test.each([
    ['an ordinary text', 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140'],
    ['the beginning of a key', OTHER.slice(0, -1)],
    ['a key of another prefix', OTHER.replace('wsk_', 'abc_')],
    ['a hint', 'wsk_…x7Qf'],
    ['a digest', 'a'.repeat(64)],
    ['nothing', ''],
  ])('that holds no key but %s', (_, text) => {
    expect(heldIn(text, `Bearer ${KEY}`)).toBe(false)
  })

  test.each(['a', 'Bearer', 'Bearer ', 'Bearer short', ''])(
    'where the request presents nothing that could be a secret: %j',
    authorization => {
      expect(heldIn('a short Bearer text', authorization, OPAQUE)).toBe(false)
    },
  )

  test('that holds the form of a key where keys have none', () => {
    expect(heldIn(OTHER, `Bearer ${FOREIGN}`, OPAQUE)).toBe(false)
  })
})
