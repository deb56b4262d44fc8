import { BlockList } from 'node:net'
import { expect, test } from 'vitest'
import { forwardedOf } from '../../src/upstream/forwarded.ts'

const trusted = new BlockList()
trusted.addSubnet('10.0.0.0', 8, 'ipv4')
trusted.addAddress('fd00::1', 'ipv6')
const said = {
  host: 'inner.example',
  'x-forwarded-for': '203.0.113.9',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'api.example',
}

test('a stranger is taken at its own address, whatever it says', () => {
  const own = { for: '192.0.2.1', proto: 'http', host: 'inner.example' }
  expect(forwardedOf('192.0.2.1', trusted, said)).toEqual(own)
  expect(forwardedOf('192.0.2.1', null, said)).toEqual(own)
})

test.each(['10.1.2.3', '::ffff:10.1.2.3', 'fd00::1'])('a trusted proxy at %s is believed and added', peer => {
  expect(forwardedOf(peer, trusted, said)).toEqual({
    for: `203.0.113.9, ${peer.replace('::ffff:', '')}`,
    proto: 'https',
    host: 'api.example',
  })
})

test('of a trusted proxy only http and https count, and silence means the plain values', () => {
  expect(forwardedOf('10.1.2.3', trusted, { host: 'h', 'x-forwarded-proto': 'javascript' })).toEqual({
    for: '10.1.2.3',
    proto: 'http',
    host: 'h',
  })
})
