import { expect, test } from 'vitest'
import { compileProxies, isTrustedProxy } from '../../src/http/client-address.ts'

test.each([
  ['an address', ['10.0.0.1'], '10.0.0.1', '10.0.0.2'],
  ['an IPv6 address', ['2001:db8::1'], '2001:db8::1', '2001:db8::2'],
  ['a range', ['10.0.0.0/8'], '10.1.2.3', '11.0.0.1'],
  ['an IPv6 range', ['2001:db8::/32'], '2001:db8:1::1', '2001:db9::1'],
  ['one of several', ['10.0.0.1', '2001:db8::/32', '192.0.2.0/24'], '192.0.2.7', '192.0.3.7'],
  [
    'an address that the listener sees in its IPv6 form',
    ['10.0.0.0/8'],
    '::ffff:10.0.0.1',
    '::ffff:11.0.0.1',
  ],
])('%s is trusted, and no other', (_, ranges, trusted, other) => {
  const proxies = compileProxies(ranges)
  expect([isTrustedProxy(proxies, trusted), isTrustedProxy(proxies, other)]).toEqual([true, false])
})

test('no proxy is trusted by default', () => {
  expect(isTrustedProxy(compileProxies([]), '127.0.0.1')).toBe(false)
})
