import { hash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Config } from '../../src/config/schema.ts'
import { isObviouslyWeak, weakSecretsOf } from '../../src/config/weak-secret.ts'

const base64 = (bytes: Uint8Array | string) => Buffer.from(bytes).toString('base64')

describe('a signing secret that is obviously none is known for it', () => {
  it.each([
    ['nothing but zeros', base64(Buffer.alloc(32))],
    ['one byte over and over', base64(Buffer.alloc(64, 0xa7))],
    ['one letter over and over', 'A'.repeat(44)],
    ['two in turn', base64(Buffer.alloc(32, Buffer.from([0x13, 0xe5])))],
    [
      'a secret of half the length, doubled',
      base64(Buffer.alloc(32, Buffer.from('8f1c0b7e55d2a94630cdfb1e6a02794d', 'hex'))),
    ],
    ['a pattern that does not end whole', base64(Buffer.alloc(40, Buffer.from('8f1c0b7e55d2a946', 'hex')))],
    ['a run', base64(Uint8Array.from({ length: 32 }, (_, index) => index))],
    ['a run backwards', base64(Uint8Array.from({ length: 32 }, (_, index) => 255 - index))],
    ['digits as they come', '01234567890123456789012345678901234567890123'],
    ['the alphabet', 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQR'],
    ['a word, filled up', base64('changeme'.padEnd(32, '!'))],
    ['a word among others', base64('please-change-me-before-production!!')],
    ['a phrase that happens to be base64', 'change-me-in-production-or-someone-will-forge-keys'],
    ['a phrase in other letters', 'ThisIsAPlaceholderThatShouldNeverReachProd1'],
    ['a name of ours', base64('the signing secret of postern, 32+')],
    [
      'a few bytes and then nothing',
      base64(Buffer.concat([Buffer.from('f00dcafe', 'hex'), Buffer.alloc(28)])),
    ],
  ])('%s', (_, secret) => {
    expect(isObviouslyWeak(secret)).toBe(true)
  })
})

describe('a random one is not', () => {
  /** The same ones in each run. */
  function random(make: (bytes: Buffer) => string): void {
    for (let i = 0; i < 5000; i++) {
      const secret = make(hash('sha256', `random enough, number ${i}`, 'buffer'))
      if (isObviouslyWeak(secret)) expect.fail(`${secret} was called weak`)
    }
  }

  it('of 32 bytes, in either alphabet', () => {
    random(bytes => bytes.toString('base64'))
    random(bytes => bytes.toString('base64url'))
  })

  it('that was made as hexadecimal digits, or as letters and digits, and encoded once more', () => {
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
    random(bytes => base64(bytes.toString('hex')))
    random(bytes => base64([...bytes].map(byte => letters.charAt(byte % letters.length)).join('')))
  })
})

describe('settings with a secret that should not have reached production', () => {
  const keysWith = (signingSecret: string) => ({ signingSecrets: [signingSecret] }) as Config['keys']
  const good = base64(hash('sha256', 'a secret of a test', 'buffer'))

  it('are named, so that a line of the log can warn of each', () => {
    const weak = {
      keys: keysWith(base64(Buffer.alloc(32))),
      console: { adminToken: 'admin' },
      origin: { token: 'origin' },
    }
    expect(weakSecretsOf(weak as Pick<Config, 'keys' | 'console' | 'origin'>)).toEqual([
      'keys.signingSecrets',
      'console.adminToken',
      'origin.token',
    ])
  })

  it('and none is where they are good, or not set', () => {
    const fine = { keys: keysWith(good), console: { adminToken: good }, origin: {} }
    expect(weakSecretsOf(fine as Pick<Config, 'keys' | 'console' | 'origin'>)).toEqual([])
  })
})
