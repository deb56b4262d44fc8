import { expect, test } from 'vitest'
import { anonymizeAddress, findClientNetwork, plainAddress } from '../../src/domain/form/address.ts'

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8::6', '2001:db8:0:0'],
  ['2001:db8:1::5:6', '2001:db8:1:0'],
  ['::1', '0:0:0:0'],
  ['1:2:3:4::', '1:2:3:4'],
  ['::ffff:192.0.2.7', '::ffff:192.0.2.7'],
])('the client of %s controls %s', (address, network) => {
  expect(findClientNetwork(address)).toBe(network)
})

test('all addresses of one /64 are one client, and those of another are another', () => {
  expect(findClientNetwork('2001:db8::1')).toBe(findClientNetwork('2001:db8:0:0:ffff::2'))
  expect(findClientNetwork('2001:db8::1')).not.toBe(findClientNetwork('2001:db8:0:1::1'))
})

test.each([
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['::FFFF:192.0.2.7', '192.0.2.7'],
  ['::ffff:c000:207', '192.0.2.7'],
  ['0:0:0:0:0:ffff:c000:207', '192.0.2.7'],
  ['192.0.2.7', '192.0.2.7'],
  ['2001:db8::ffff:c000:207', '2001:db8::ffff:c000:207'],
  ['::ffff:c000:207:1', '::ffff:c000:207:1'],
  ['::ffff:no-address', '::ffff:no-address'],
  ['fe80::1%eth0', 'fe80::1'],
  ['::ffff:192.0.2.7%eth0', '192.0.2.7'],
  ['unknown', 'unknown'],
  ['100%', '100%'],
])('the address %s is written as %s', (address, plain) => {
  expect(plainAddress(address)).toBe(plain)
})

test.each([
  ['192.0.2.7', '192.0.2.0/24'],
  ['2001:db8:1:2::7', '2001:db8:1::/48'],
  ['unknown', ''],
])('a refusal of %s names the network %s', (address, network) => {
  expect(anonymizeAddress(address)).toBe(network)
})
