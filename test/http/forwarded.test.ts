import { BlockList } from 'node:net'
import { expect, test } from 'vitest'
import { buildForwarded } from '../../src/http/client-address.ts'

const trusted = new BlockList()
trusted.addSubnet('10.0.0.0', 8, 'ipv4')
trusted.addAddress('fd00::1', 'ipv6')
const fields = {
  host: 'inner.example',
  'x-forwarded-for': '203.0.113.9',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'api.example',
}

test('without a trusted proxy the address of the connection counts, not the fields of the client', () => {
  const own = { for: '192.0.2.1', proto: 'http', host: 'inner.example' }
  expect(buildForwarded('192.0.2.1', trusted, fields)).toEqual(own)
  expect(buildForwarded('192.0.2.1', null, fields)).toEqual(own)
})

test.each(['10.1.2.3', '::ffff:10.1.2.3', 'fd00::1'])(
  'fields of the trusted proxy %s are used, and its address is appended',
  peer => {
    expect(buildForwarded(peer, trusted, fields)).toEqual({
      for: `203.0.113.9, ${peer.replace('::ffff:', '')}`,
      proto: 'https',
      host: 'api.example',
    })
  },
)

test.each<[string, 'http' | 'https']>([
  ['HTTPS', 'https'],
  ['https, http', 'https'],
  ['https,http,http', 'https'],
  [' https ', 'https'],
  ['Http, https', 'http'],
  ['http', 'http'],
  ['', 'http'],
  ['httpsx', 'http'],
  [', https', 'http'],
])('of the schemes %j the first is that of the client', (said, proto) => {
  expect(buildForwarded('10.1.2.3', trusted, { host: 'h', 'x-forwarded-proto': said }).proto).toBe(proto)
})

test('an unknown protocol counts as http, and missing fields have defaults', () => {
  expect(buildForwarded('10.1.2.3', trusted, { host: 'h', 'x-forwarded-proto': 'javascript' })).toEqual({
    for: '10.1.2.3',
    proto: 'http',
    host: 'h',
  })
})

test('a request without Host has none for the upstream, and repeated fields are joined', () => {
  expect(buildForwarded('192.0.2.1', null, {})).toEqual({ for: '192.0.2.1', proto: 'http', host: '' })
  const repeated = { 'x-forwarded-host': ['a.example', 'b.example'] }
  // Node's types allow a list.
  expect(buildForwarded('10.1.2.3', trusted, { ...repeated, host: 'h' }).host).toBe('a.example, b.example')
})
