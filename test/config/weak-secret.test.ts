import { hash, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isObviouslyWeak } from '../../src/config/weak-secret.ts'
import { ENOUGH, mistakesOf, signingSecret } from './examples.ts'

const base64 = (bytes: Uint8Array | string) => Buffer.from(bytes).toString('base64')
const counting = Uint8Array.from({ length: 32 }, (_, index) => index)
const hexOf = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

const WEAK: readonly (readonly [what: string, secret: string])[] = [
  ['nothing but zeros', base64(Buffer.alloc(32))],
  ['one byte over and over', base64(Buffer.alloc(64, 0xa7))],
  ['one letter over and over', 'A'.repeat(44)],
  ['two in turn', base64(Buffer.alloc(32, Buffer.from([0x13, 0xe5])))],
  [
    'a secret of half the length, doubled',
    base64(Buffer.alloc(32, Buffer.from('8f1c0b7e55d2a94630cdfb1e6a02794d', 'hex'))),
  ],
  ['a pattern that does not end whole', base64(Buffer.alloc(40, Buffer.from('8f1c0b7e55d2a946', 'hex')))],
  ['counting', base64(counting)],
  ['counting from 200, past 255', base64(counting.map(byte => byte + 200))],
  ['counting down', base64(counting.map(byte => 255 - byte))],
  ['counting in sevens', base64(counting.map(byte => byte * 7))],
  ['counting each twice', base64(Uint8Array.from({ length: 64 }, (_, index) => index >> 1))],
  ['counting, in hexadecimal digits', hexOf(counting)],
  ['counting, in hexadecimal digits that were encoded', base64(hexOf(counting))],
  ['digits as they come', '01234567890123456789012345678901234567890123'],
  ['digits and letters as they come', '0123456789abcdef0123456789abcdef0123456789abcdef'],
  ['the alphabet', 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQR'],
  ['a word, filled up', base64('changeme'.padEnd(32, '!'))],
  ['a word, repeated', base64('secret'.repeat(6))],
  ['a word, repeated with something at its end', base64(`${'password'.repeat(4)}1`)],
  ['a word among others', base64('please-change-me-before-production!!')],
  ['words that stand in examples', base64('test-signing-secret-for-postern-0001')],
  ['a phrase', base64('correct horse battery staple and so on')],
  ['a phrase that happens to be base64', 'change-me-in-production-or-someone-will-forge-keys'],
  ['a phrase in other letters', 'ThisIsAPlaceholderThatShouldNeverReachProd1'],
  ['a name of ours', base64('the signing secret of postern, 32+')],
  ['a few bytes and then nothing', base64(Buffer.concat([Buffer.from('f00dcafe', 'hex'), Buffer.alloc(28)]))],
  ['eight random bytes and then nothing', base64(Buffer.concat([randomBytes(8), Buffer.alloc(24)]))],
]

describe('a signing secret that is obviously not random is detected', () => {
  it.each(WEAK)('%s', (_, secret) => {
    expect(isObviouslyWeak(secret)).toBe(true)
  })
})

/** The odds of refusing one of these are below 1 in 10^8: the 34,000 of a run hold one by chance in fewer than 1 of 3,000 runs. */
describe('a random signing secret is accepted', () => {
  const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
  const forms: readonly (readonly [string, (bytes: Buffer) => string])[] = [
    ['of bytes, in base64', bytes => bytes.toString('base64')],
    ['of bytes, in base64url', bytes => bytes.toString('base64url')],
    ['of bytes, as hexadecimal digits', bytes => bytes.toString('hex')],
    ['of hexadecimal digits, encoded', bytes => base64(bytes.toString('hex'))],
    ['of 16 bytes as hexadecimal digits, encoded', bytes => base64(bytes.subarray(0, 16).toString('hex'))],
    ['of base64, encoded', bytes => base64(bytes.toString('base64'))],
    [
      'of letters and digits, encoded',
      bytes => base64([...bytes].map(byte => LETTERS.charAt(byte % 62)).join('')),
    ],
    [
      'of small letters, encoded',
      bytes => base64([...bytes].map(byte => LETTERS.charAt(26 + (byte % 26))).join('')),
    ],
  ]

  it.each(forms)('%s', (_, write) => {
    // fast-check is fond of small values and repetitions: a digest of what it draws is as random as its seed.
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), drawn => {
        const secret = write(hash('sha256', drawn, 'buffer'))
        expect(isObviouslyWeak(secret), secret).toBe(false)
      }),
      { numRuns: 3000 },
    )
  })

  it('of each length from 32 to 96 bytes, ten thousand of them', () => {
    for (let number = 0; number < 10_000; number++) {
      const secret = base64(randomBytes(32 + (number % 65)))
      if (isObviouslyWeak(secret)) expect.fail(`${secret} was refused`)
    }
  })
})

describe('weak secrets are rejected with the settings', () => {
  it.each(WEAK)('a signing secret of %s', (_, secret) => {
    const problem = /^POSTERN_KEYS_SIGNING_SECRETS holds one that is obviously not random/
    for (const list of [secret, `${signingSecret(1)},${secret}`]) {
      const mistakes = mistakesOf({ environment: { POSTERN_KEYS_SIGNING_SECRETS: list } })
      expect(mistakes).toEqual([expect.stringMatching(problem)])
      expect(mistakes.join()).not.toContain(secret)
    }
  })

  it.each([
    ['POSTERN_ADMIN_TOKEN', {}],
    ['POSTERN_KEY_SERVICE_TOKEN', { POSTERN_KEY_SERVICE_URL: 'http://console:8081' }],
  ])('%s of fewer than 16 characters', (name, more) => {
    const ofLength = (length: number) => mistakesOf({ environment: { ...more, [name]: 'x'.repeat(length) } })
    for (const length of [1, 8, 15]) {
      expect(ofLength(length)).toEqual([
        expect.stringMatching(new RegExp(`^${name}, at 0 must be a text of 16 to 512`)),
      ])
    }
    expect(ofLength(16)).toEqual([])
  })

  it('but accepts valid ones on every plane', () => {
    for (const planes of [[], ['gateway'], ['console']] as const) {
      expect(mistakesOf({ environment: ENOUGH, planes })).toEqual([])
    }
  })
})
