import { describe, expect, test } from 'vitest'
import { isPublicAddress, mayConnectTo } from '../../src/domain/form/address.ts'

describe('an address is not public', () => {
  test.each([
    ['this network', '0.0.0.0'],
    ['private', '10.1.2.3'],
    ['private', '172.31.255.255'],
    ['private', '192.168.1.1'],
    ['loopback', '127.1.2.3'],
    ['carrier-grade NAT', '100.64.0.1'],
    ['the metadata service of most clouds', '169.254.169.254'],
    ['Alibaba’s metadata service', '100.100.100.200'],
    ['Oracle’s metadata service', '192.0.0.192'],
    ['Azure’s platform service', '168.63.129.16'],
    ['multicast', '224.0.0.1'],
    ['broadcast', '255.255.255.255'],
    ['documentation', '203.0.113.9'],
    ['benchmarks', '198.19.0.1'],
    ['loopback', '::1'],
    ['unspecified', '::'],
    ['link-local', 'fe80::1'],
    ['link-local with a zone', 'fe80::1%eth0'],
    ['unique local', 'fd12:3456::1'],
    ['AWS’s metadata service', 'fd00:ec2::254'],
    ['multicast', 'ff02::1'],
    ['IPv4-mapped loopback', '::ffff:127.0.0.1'],
    ['IPv4-mapped metadata in hexadecimal', '::ffff:a9fe:a9fe'],
    ['IPv4-compatible', '::127.0.0.1'],
    ['NAT64 of a private address', '64:ff9b::a00:1'],
    ['NAT64 of a public address', '64:ff9b::808:808'],
    ['local NAT64', '64:ff9b:1::1'],
    ['6to4 of a private address', '2002:a00:1::1'],
    ['Teredo', '2001:0:1::1'],
    ['documentation', '2001:db8::1'],
    ['documentation', '3fff::1'],
    ['segment routing', '5f00::1'],
    ['a name', 'localhost'],
    ['nothing', ''],
  ])('%s: %s', (_, address) => {
    expect(isPublicAddress(address)).toBe(false)
    expect(mayConnectTo(address, { allowedCidrs: [], deniedCidrs: [] })).toBe(false)
  })
})

test.each([
  '8.8.8.8',
  '1.1.1.1',
  '172.32.0.1',
  '100.128.0.1',
  '2606:4700::1111',
  '::ffff:8.8.8.8',
  '2a00:1450::1',
])('an address is public: %s', address => expect(isPublicAddress(address)).toBe(true))

test('the operator allows networks beside public ones, and denies some of either', () => {
  const policy = { allowedCidrs: ['10.0.0.0/8', '64:ff9b::/96'], deniedCidrs: ['10.9.0.0/16', '8.8.8.0/24'] }
  const may = (address: string) => mayConnectTo(address, policy)
  expect(['10.1.1.1', '::ffff:10.1.1.1', '64:ff9b::808:808', '1.1.1.1'].filter(may)).toHaveLength(4)
  expect(['10.9.1.1', '8.8.8.8', '::ffff:8.8.8.8', '192.168.1.1'].filter(may)).toEqual([])
})
