import { expect, test } from 'vitest'
import { compileProxies, findClientAddress, UNKNOWN_ADDRESS } from '../../src/http/client-address.ts'

const TRUSTED = compileProxies(['10.0.0.0/8', '2001:db8::/32'])

test.each<[string, string, string | undefined, string]>([
  ['the peer without a trusted proxy', '192.0.2.1', '198.51.100.1', '192.0.2.1'],
  ['the peer in its IPv4 form', '::ffff:192.0.2.1', undefined, '192.0.2.1'],
  ['what a trusted proxy says', '10.0.0.1', '192.0.2.1', '192.0.2.1'],
  ['what a trusted IPv6 proxy says', '2001:db8::1', '192.0.2.1', '192.0.2.1'],
  ['an IPv4-mapped one in its IPv4 form', '10.0.0.1', '::FFFF:192.0.2.1', '192.0.2.1'],
  ['one mapped in hexadecimal in its IPv4 form', '10.0.0.1', '0:0:0:0:0:ffff:c000:201', '192.0.2.1'],
  ['found behind a proxy that is written as IPv6', '10.0.0.1', '192.0.2.1, ::ffff:a00:2', '192.0.2.1'],
  ['the rightmost that is no proxy itself', '10.0.0.1', '6.6.6.6, 192.0.2.1, 10.0.0.2', '192.0.2.1'],
  ['the first proxy where all are', '10.0.0.1', '10.0.0.3,10.0.0.2', '10.0.0.3'],
  ['the proxy’s own where it says nothing', '10.0.0.1', undefined, '10.0.0.1'],
  ['unknown where it says nonsense', '10.0.0.1', '192.0.2.1, unknown', 'an unknown address'],
  ['unknown where it says nothing in many words', '10.0.0.1', ' , ,', UNKNOWN_ADDRESS],
  ['unknown where another proxy says nonsense', '10.0.0.1', 'unknown, 10.0.0.2', UNKNOWN_ADDRESS],
  ['found behind a proxy that has a port', '10.0.0.1', '6.6.6.6, 192.0.2.1:80, 10.0.0.2:443', '192.0.2.1'],
  ['nothing of a connection that is gone', '', '192.0.2.1', ''],
])('the client’s address is %s', (_, peer, forwardedFor, address) => {
  expect(findClientAddress(peer, TRUSTED, forwardedFor)).toBe(address)
})

test('the client’s address is the peer’s where no proxy is trusted', () => {
  expect(findClientAddress('10.0.0.1', null, '192.0.2.1')).toBe('10.0.0.1')
})
