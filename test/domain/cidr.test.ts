import { BlockList } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isInCidrs, normalizeCidrs } from '../../src/domain/form/address.ts'

describe('a network', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1/32'],
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['::1', '::1/128'],
    ['2001:DB8:0:0::1/32', '2001:db8::/32'],
    ['::/0', '::/0'],
    ['::ffff:10.0.0.1', '10.0.0.1/32'],
    ['::ffff:10.1.2.3/104', '10.0.0.0/8'],
    ['::ffff:0:0/96', '0.0.0.0/0'],
    ['::ffff:0:0/95', '::fffe:0:0/95'],
    ['2001:db8::192.0.2.1/128', '2001:db8::c000:201/128'],
  ])('%s is stored as %s', (written, stored) => {
    expect(normalizeCidrs([written])).toEqual([stored])
    expect(normalizeCidrs([stored])).toEqual([stored])
  })

  it.each([
    '',
    'localhost',
    '1.2.3',
    '1.2.3.4.',
    '01.2.3.4',
    '256.1.1.1',
    '0x7f.1',
    '1.2.3.4/33',
    '1.2.3.4/',
    '1.2.3.4/08',
    '1.2.3.4/-1',
    '1.2.3.4 ',
    '1.2.3.4/8/8',
    '::1/129',
    'fe80::1%eth0',
    '::1]',
    '[::1]',
    ':::',
    '1::2::3',
    '::ffff:1.2.3.256',
    '*',
  ])('is not written as %j', written => {
    expect(normalizeCidrs(['10.0.0.0/8', written])).toBeNull()
  })

  it('stands in a list once, and lists of the same networks are equal', () => {
    const list = ['10.0.0.0/8', '10.9.0.0/8', '2001:db8::/32', '::ffff:10.0.0.0/104']
    expect(normalizeCidrs(list)).toEqual(['10.0.0.0/8', '2001:db8::/32'])
    expect(normalizeCidrs(list.toReversed())).toEqual(normalizeCidrs(list))
    expect(normalizeCidrs([])).toEqual([])
  })
})

describe('an address', () => {
  it.each([
    ['192.0.2.255', ['192.0.2.0/24'], true],
    ['192.0.3.0', ['192.0.2.0/24'], false],
    ['::ffff:192.0.2.7', ['192.0.2.0/24'], true],
    ['::ffff:c000:207', ['192.0.2.0/24'], true],
    ['2001:db8:ffff::1', ['2001:db8::/32'], true],
    ['2001:db9::1', ['2001:db8::/32'], false],
    ['192.0.2.7', ['::/0'], false],
    ['::1', ['0.0.0.0/0'], false],
    ['10.0.0.1', ['192.0.2.0/24', '10.0.0.1/32'], true],
    ['10.0.0.1', [], false],
    ['10.0.0.0/8', ['10.0.0.0/8'], false],
    ['unknown', ['0.0.0.0/0', '::/0'], false],
    ['', ['0.0.0.0/0', '::/0'], false],
  ])('%s is in %j: %s', (address, cidrs, inside) => {
    expect(isInCidrs(address, cidrs)).toBe(inside)
  })

  it.each([
    { family: 'ipv4', bits: 32, textOf: textOfIpv4 },
    { family: 'ipv6', bits: 128, textOf: textOfIpv6 },
  ] as const)('is in the networks where Node’s block list finds it: $family', ({ family, bits, textOf }) => {
    const value = fc.bigInt({ min: 0n, max: 2n ** BigInt(bits) - 1n })
    // Equal to the network up to some bit: two random addresses differ in their first bits.
    const scene = fc.record({ network: value, kept: fc.nat({ max: bits }), rest: value })
    const property = fc.property(scene, fc.nat({ max: bits }), ({ network, kept, rest }, prefixLength) => {
      const mask = 2n ** BigInt(bits - kept) - 1n
      const chosen = (network & ~mask) | (rest & mask)
      // Those are IPv4 here, and in ::/0 for Node.
      fc.pre(!isMapped(network) && !isMapped(chosen))
      const address = textOf(chosen)
      const list = new BlockList()
      list.addSubnet(textOf(network), prefixLength, family)
      expect(isInCidrs(address, [`${textOf(network)}/${prefixLength}`])).toBe(list.check(address, family))
    })
    fc.assert(property, { numRuns: 1_000 })
  })

  it('is in every network made of it, and not in one that differs within the prefix', () => {
    const property = fc.property(
      fc.oneof(
        fc.ipV4().map(address => ({ address, bits: 32 })),
        fc.ipV6().map(address => ({ address, bits: 128 })),
      ),
      fc.nat({ max: 128 }),
      ({ address, bits }, length) => {
        const [own] = normalizeCidrs([address]) ?? []
        const width = own?.includes(':') === true ? 128 : 32
        const prefixLength = Math.min(length, bits)
        expect(isInCidrs(address, normalizeCidrs([`${address}/${prefixLength}`]) ?? [])).toBe(true)
        const [other] = normalizeCidrs([width === 32 ? '203.0.113.9' : '2001:db8:5:6::9']) ?? []
        if (own !== other) expect(isInCidrs(address, [other ?? ''])).toBe(false)
      },
    )
    fc.assert(property)
  })
})

function textOfIpv4(value: bigint): string {
  return [24n, 16n, 8n, 0n].map(shift => (value >> shift) & 0xffn).join('.')
}

/** Whether it is an IPv4 address in IPv6 form (RFC 4291, section 2.5.5.2). */
function isMapped(value: bigint): boolean {
  return value >> 32n === 0xffffn
}

function textOfIpv6(value: bigint): string {
  const groups = Array.from({ length: 8 }, (_, index) => (value >> BigInt(112 - 16 * index)) & 0xffffn)
  return groups.map(group => group.toString(16)).join(':')
}
