import { createHash, createHmac, randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import { serialize } from 'node:v8'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  digestKey,
  importSigningSecret,
  type KeyFormat,
  keyHint,
  mintSecret,
  Secret,
} from '../../../src/domain/key/secret.ts'
import { isWellFormedKey } from '../../support/is-well-formed-key.ts'
import { OTHER_SIGNING_KEY, SIGNING_KEY } from '../examples.ts'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const FORMAT: KeyFormat = { kind: 'signed', prefix: 'wsk_', signingKeys: [SIGNING_KEY] }
const KEY = mintSecret('wsk_', Buffer.alloc(32, 7), SIGNING_KEY).reveal()

const random32 = fc.uint8Array({ minLength: 32, maxLength: 32 })

/** An independent implementation of the form of a key. */
function contractMac(body: string, secret: Uint8Array): string {
  let value = createHmac('sha256', secret).update(body).digest().readBigUInt64BE()
  let text = ''
  while (text.length < 11) {
    text = BASE62.charAt(Number(value % 62n)) + text
    value /= 62n
  }
  return text
}

describe('a new key', () => {
  it('is the prefix, 43 base62 characters and a MAC of 11', () => {
    fc.assert(
      fc.property(random32, random => {
        expect(mintSecret('wsk_', random, SIGNING_KEY).reveal()).toMatch(/^wsk_[0-9A-Za-z]{54}$/)
      }),
    )
  })

  it('contains all 256 random bits: the 43 characters encode the whole number', () => {
    fc.assert(
      fc.property(random32, random => {
        const digits = mintSecret('wsk_', random, SIGNING_KEY).reveal().slice(4, 47)
        const value = [...digits].reduce((sum, digit) => sum * 62n + BigInt(BASE62.indexOf(digit)), 0n)
        expect(value.toString(16).padStart(64, '0')).toBe(Buffer.from(random).toString('hex'))
      }),
    )
  })

  it('ends with the first 64 bits of HMAC-SHA-256 over everything before', () => {
    fc.assert(
      fc.property(random32, random32, (random, secret) => {
        const key = mintSecret('wsk_', random, importSigningSecret(secret)).reveal()
        expect(key.slice(-11)).toBe(contractMac(key.slice(0, -11), secret))
      }),
    )
  })

  it('requires exactly 32 random bytes', () => {
    expect(() => mintSecret('wsk_', Buffer.alloc(31), SIGNING_KEY)).toThrow(RangeError)
    expect(() => mintSecret('wsk_', Buffer.alloc(33), SIGNING_KEY)).toThrow(RangeError)
  })

  it('uses every character of the alphabet about equally often', () => {
    const counts = new Map<string, number>()
    const minted = 400
    for (let count = 0; count < minted; count++) {
      // The first character encodes less than a whole digit.
      const random = mintSecret('wsk_', randomBytes(32), SIGNING_KEY).reveal().slice(5, 47)
      for (const character of random) counts.set(character, (counts.get(character) ?? 0) + 1)
    }
    const mean = (minted * 42) / 62
    // Seven standard deviations: random variation stays below, a missing or doubled character exceeds it by far.
    const bound = 7 * Math.sqrt(mean)
    for (const character of BASE62) {
      expect(Math.abs((counts.get(character) ?? 0) - mean), character).toBeLessThan(bound)
    }
  })
})

describe('a presented key', () => {
  it('is accepted exactly as issued', () => {
    fc.assert(
      fc.property(random32, random => {
        expect(isWellFormedKey(mintSecret('wsk_', random, SIGNING_KEY).reveal(), FORMAT)).toBe(true)
      }),
    )
  })

  it('is rejected if any one character is changed, removed or added', () => {
    const character = fc.oneof(
      fc.constantFrom(...BASE62, '-', '_', ' ', '\0', '\n', 'İ', 'К', 'Ａ'),
      fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 1 }),
    )
    const edit = fc.record({
      kind: fc.constantFrom('replace', 'insert', 'delete'),
      at: fc.nat(KEY.length),
      character,
    })
    fc.assert(
      fc.property(edit, ({ kind, at, character }) => {
        const rest = kind === 'insert' ? KEY.slice(at) : KEY.slice(at + 1)
        const changed = KEY.slice(0, at) + (kind === 'delete' ? '' : character) + rest
        fc.pre(changed !== KEY)
        expect(isWellFormedKey(changed, FORMAT)).toBe(false)
      }),
      { numRuns: 3000 },
    )
  })

  it('is rejected if two of its characters are swapped', () => {
    fc.assert(
      fc.property(fc.nat(KEY.length - 1), fc.nat(KEY.length - 1), (a, b) => {
        const characters = [...KEY]
        ;[characters[a], characters[b]] = [characters[b] ?? '', characters[a] ?? '']
        const changed = characters.join('')
        fc.pre(changed !== KEY)
        expect(isWellFormedKey(changed, FORMAT)).toBe(false)
      }),
    )
  })

  it.each([
    ['an empty string', ''],
    ['only the prefix', 'wsk_'],
    ['lower case', KEY.toLowerCase()],
    ['upper case', KEY.toUpperCase()],
    ['another prefix', KEY.replace('wsk_', 'wsx_')],
    ['the prefix in upper case', KEY.replace('wsk_', 'WSK_')],
    ['no prefix', KEY.slice(4)],
    ['the prefix twice', `wsk_${KEY}`],
    ['a Cyrillic ѕ in the prefix', KEY.replace('s', 'ѕ')],
    ['full-width letters', KEY.normalize().replace('k', 'ｋ')],
    ['a Kelvin sign for K', KEY.replace('wsk', 'ws\u212a')],
    ['a zero byte behind it', `${KEY}\0`],
    ['a line break behind it', `${KEY}\n`],
    ['a space before it', ` ${KEY}`],
    ['a combining mark behind it', `${KEY}\u0301`],
    ['quotes round it', `"${KEY}"`],
    ['__proto__', '__proto__'],
    ['a pattern of Redis', 'key:*'],
    ['SQL', "' OR 1=1--"],
    ['base62 of the right length with a MAC of zeros', `${KEY.slice(0, -11)}00000000000`],
  ])('is rejected: %s', (_, key) => {
    expect(isWellFormedKey(key, FORMAT)).toBe(false)
  })

  it('is rejected if it was signed with another prefix, even of the same length', () => {
    const other = mintSecret('wsx_', Buffer.alloc(32, 7), SIGNING_KEY).reveal()
    expect(isWellFormedKey(other, { ...FORMAT, prefix: 'wsx_' })).toBe(true)
    expect(isWellFormedKey(other, FORMAT)).toBe(false)
    expect(isWellFormedKey(`wsk_${other.slice(4)}`, FORMAT)).toBe(false)
  })

  it('is rejected in a form that is never issued, even with a valid MAC', () => {
    for (const random of [
      '-'.repeat(43),
      '0'.repeat(42),
      '0'.repeat(44),
      `${'0'.repeat(42)}\n`,
      'é'.repeat(43),
    ]) {
      const body = `wsk_${random}`
      expect(isWellFormedKey(body + contractMac(body, Buffer.alloc(32, 1)), FORMAT), random).toBe(false)
    }
  })

  it('is accepted with any active signing secret, so that secrets can be rotated, and rejected without one', () => {
    const old = mintSecret('wsk_', randomBytes(32), OTHER_SIGNING_KEY).reveal()
    expect(isWellFormedKey(old, FORMAT)).toBe(false)
    expect(isWellFormedKey(old, { ...FORMAT, signingKeys: [SIGNING_KEY, OTHER_SIGNING_KEY] })).toBe(true)
    expect(isWellFormedKey(KEY, { ...FORMAT, signingKeys: [OTHER_SIGNING_KEY, SIGNING_KEY] })).toBe(true)
    expect(isWellFormedKey(KEY, { ...FORMAT, signingKeys: [] })).toBe(false)
  })
})

describe('an opaque key', () => {
  it.each(['a', 'sk-live_123.~+/==', KEY, 'x'.repeat(512)])('may be every valid bearer token: %s', key => {
    expect(isWellFormedKey(key, { kind: 'opaque' })).toBe(true)
  })

  it.each(['', ' ', 'a b', 'a=b', '=', 'a\n', 'a\r\nGET x', '{}', 'é', 'x'.repeat(513)])(
    'has no space, quote, control or foreign character: %j',
    key => {
      expect(isWellFormedKey(key, { kind: 'opaque' })).toBe(false)
    },
  )
})

describe('a secret', () => {
  const secret = new Secret('wsk_hush')

  it('is returned by reveal()', () => {
    expect(secret.reveal()).toBe('wsk_hush')
  })

  it('cannot be serialised, alone or inside another object', () => {
    expect(() => JSON.stringify(secret)).toThrow(TypeError)
    expect(() => JSON.stringify({ deep: [secret] })).toThrow(/cannot be serialised/)
  })

  it('is not revealed by a template, a concatenation, a log or a copy', () => {
    const shown = [
      `${secret}`,
      String(secret),
      ''.concat(secret as unknown as string),
      inspect(secret),
      inspect({ secret }, { showHidden: true, depth: 9 }),
      inspect(secret, { customInspect: false, showHidden: true }),
      new Error(`${secret}`).stack ?? '',
      Object.entries(secret).join(),
      Object.getOwnPropertyNames(secret).join(),
      serialize(structuredClone(secret)).toString('latin1'),
    ]
    for (const text of shown) expect(text).not.toContain('hush')
  })
})

describe('a stored key', () => {
  it('is identified by its SHA-256 in lower-case hex', () => {
    expect(digestKey(KEY)).toBe(createHash('sha256').update(KEY).digest('hex'))
    expect(digestKey(KEY)).toMatch(/^[0-9a-f]{64}$/)
  })

  it('has a hint: the prefix, an ellipsis, and the last four characters of the key', () => {
    expect(keyHint(new Secret(KEY), 'wsk_')).toBe(`wsk_…${KEY.slice(-4)}`)
    const otherRandom = `wsk_${'0'.repeat(43)}${KEY.slice(-11)}`
    expect(keyHint(new Secret(otherRandom), 'wsk_')).toBe(keyHint(new Secret(KEY), 'wsk_'))
  })
})
