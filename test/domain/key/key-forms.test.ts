import { createHmac } from 'node:crypto'
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import {
  endsAsKey,
  fingerprintSecret,
  hasKeyForm,
  hasKeyMac,
  holdsKeyForm,
  keyPattern,
  mintSecret,
} from '../../../src/domain/key/secret.ts'
import { SIGNING_KEY } from '../examples.ts'

const SECRET = mintSecret('wsk_', Buffer.alloc(32, 7), SIGNING_KEY)
const KEY = SECRET.reveal()

test.each([
  [KEY, true, true],
  [`Bearer ${KEY}`, true, true],
  [`${KEY}.`, false, true],
  [`${KEY}0`, false, true],
  [`wsk_wsk_${KEY.slice(4)}`, true, true],
  [KEY.slice(0, -1), false, false],
  [KEY.slice(1), false, false],
  [`${KEY.slice(0, -1)}-`, false, false],
  [`wsk_-${KEY.slice(5)}`, false, false],
  [`xyz_${KEY.slice(4)}`, false, false],
  [`wsk_ ${KEY.slice(4)}`, false, false],
  [`${'.'.repeat(60)}wsk_abc`, false, false],
  ['', false, false],
])('the text %s ends in a key: %s, and holds one: %s', (text, ends, holds) => {
  expect(endsAsKey(text, 'wsk_')).toBe(ends)
  expect(holdsKeyForm(text, 'wsk_')).toBe(holds)
})

test('scanners of secrets find a key by a pattern', () => {
  expect(keyPattern('wsk_')).toBe('\\bwsk_[0-9A-Za-z]{54}\\b')
})

test('a log shows a secret as [secret]', () => {
  expect([String(SECRET), inspect(SECRET), inspect({ SECRET })]).toEqual([
    '[secret]',
    '[secret]',
    '{ SECRET: [secret] }',
  ])
})

test('a fingerprint tells signing secrets apart, by 64 bits of an HMAC', () => {
  const bytes = Buffer.alloc(32, 3)
  const whole = createHmac('sha256', bytes).update('fingerprint of a signing secret').digest('hex')
  expect(fingerprintSecret(bytes)).toBe(whole.slice(0, 16))
})

test('too few random bytes make no key', () => {
  expect(() => mintSecret('wsk_', Buffer.alloc(31), SIGNING_KEY)).toThrow(
    'A key needs 32 random bytes, not 31',
  )
})

test('an opaque key of any form passes without a MAC', () => {
  expect(hasKeyForm('abc-._~+/==', { kind: 'opaque' })).toBe(true)
  expect(hasKeyForm('a b', { kind: 'opaque' })).toBe(false)
  expect(hasKeyMac('abc', { kind: 'opaque' })).toBe(true)
})
