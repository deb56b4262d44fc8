import { expect, test } from 'vitest'
import { isInCidrs, isPublicAddress, MAX_CIDRS, normalizeCidrs } from '../../src/domain/form/address.ts'

test.each([
  '192.0.2.1 ',
  '192.0.2.1x',
  '192.0.2.1.',
  ' ::1',
  '::1 ',
  '2001:db8::1z',
  '1.2.3.4.5',
  '::1::',
  '::1]?::1',
  '::1]?[',
  '::1]@[::2',
])('the text %j is no address', text => {
  expect(normalizeCidrs([text])).toBeNull()
  expect(isInCidrs(text, ['0.0.0.0/0', '::/0'])).toBe(false)
})

test('a network that cannot be read allows no address, and the others of its list do', () => {
  expect(isInCidrs('192.0.2.1', ['office', '192.0.2.0/24'])).toBe(true)
  expect(isInCidrs('192.0.3.1', ['office', '192.0.2.0/24'])).toBe(false)
})

test('only a network of IPv4-mapped addresses becomes one of IPv4', () => {
  expect(normalizeCidrs(['::ffff:0:0/96', '::ffff:c000:200/120'])).toEqual(['0.0.0.0/0', '192.0.2.0/24'])
  expect(normalizeCidrs(['::ffff:0:0/95'])).toEqual(['::fffe:0:0/95'])
})

test('a list holds 32 networks', () => {
  expect(MAX_CIDRS).toBe(32)
})

test.each(['192.0.2.1', '198.51.100.1', '192.88.99.1'])('%s is not public', address => {
  expect(isPublicAddress(address)).toBe(false)
})
