import { isIP } from 'node:net'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isInCidrs } from '../../src/domain/form/address.ts'
import { compileProxies, findClientAddress, readForwardedAddress } from '../../src/http/client-address.ts'

const PROXY = '10.0.0.1'
const TRUSTED = compileProxies(['10.0.0.0/8'])

describe('the client’s address is read from what proxies write', () => {
  test.each<[proxy: string, header: string, address: string]>([
    ['nginx, HAProxy, Envoy, Caddy, Traefik', '203.0.113.7', '203.0.113.7'],
    ['nginx, a client over IPv6', '2001:db8::7', '2001:db8::7'],
    ['Azure Application Gateway', '203.0.113.7:51234', '203.0.113.7'],
    ['Azure App Service after another proxy', '198.51.100.9:1, 203.0.113.7:51234', '203.0.113.7'],
    ['IIS with Application Request Routing, IPv6', '[2001:db8::7]:51234', '2001:db8::7'],
    ['AWS, with the client’s port preserved', '203.0.113.7:51234', '203.0.113.7'],
    ['AWS, with the client’s port preserved, IPv6', '[2001:db8::7]:443', '2001:db8::7'],
    ['Google Cloud: client and load balancer', '203.0.113.7, 10.1.2.3', '203.0.113.7'],
    ['Cloudflare before an ingress', '203.0.113.7, 10.1.2.3', '203.0.113.7'],
    ['two fields, joined by Node', '198.51.100.1, 203.0.113.7, 10.1.2.3:80', '203.0.113.7'],
    ['lists without spaces or with tabs', '198.51.100.1,\t203.0.113.7\t', '203.0.113.7'],
    ['brackets without a port', '[2001:db8::7]', '2001:db8::7'],
    ['a zone', 'fe80::7%eth0', 'fe80::7'],
    ['a zone in brackets with a port', '[fe80::7%25eth0]:80', 'fe80::7'],
    ['a listener on both families', '::ffff:203.0.113.7', '203.0.113.7'],
    ['the same in brackets with a port', '[::ffff:203.0.113.7]:80', '203.0.113.7'],
  ])('%s: %s', (_, header, address) => {
    expect(findClientAddress(PROXY, TRUSTED, header)).toBe(address)
  })

  test.each([
    ['unknown'],
    ['_hidden'],
    ['203.0.113.7:'],
    ['203.0.113.7:port'],
    ['203.0.113.7:123456'],
    ['203.0.113.7:80:80'],
    ['[2001:db8::7]x:80'],
    ['[2001:db8::7]:123456'],
    ['1203.0.113.7:80'],
    ['x203.0.113.7:80'],
    ['203.0.113.07'],
    ['203.0.113'],
    ['[203.0.113.7'],
    ['2001:db8::7]'],
    ['[2001:db8::7]x'],
    ['[2001:db8::7]80'],
    ['[[2001:db8::7]]'],
    ['203.0.113.7%eth0'],
    ['for=203.0.113.7'],
    ['localhost'],
    [''],
  ])('what is no address of any dialect is in no network that a key allows: %j', header => {
    const address = findClientAddress(PROXY, TRUSTED, header)
    expect(isInCidrs(address, ['0.0.0.0/0', '::/0'])).toBe(false)
  })
})

const ipv4 = fc.ipV4()
const ipv6 = fc.ipV6().filter(text => isIP(text) === 6)
const port = fc.integer({ min: 0, max: 65_535 })
const zone = fc.stringMatching(/^[a-z0-9]{1,8}$/)
/** An address, and ways to write it. */
const written = fc.oneof(
  fc
    .tuple(ipv4, port)
    .chain(([address, number]) =>
      fc.constantFrom(address, `${address}:${number}`, ` ${address} `).map(text => [address, text] as const),
    ),
  fc
    .tuple(ipv6, port, zone)
    .chain(([address, number, name]) =>
      fc
        .constantFrom(address, `[${address}]`, `[${address}]:${number}`, `${address}%${name}`)
        .map(text => [address, text] as const),
    ),
)

describe('for every address', () => {
  test('each way to write it is read as the address itself', () => {
    fc.assert(
      fc.property(written, ([address, text]) => {
        expect(readForwardedAddress(text)).toBe(readForwardedAddress(address))
        expect(readForwardedAddress(text)).not.toBeNull()
      }),
    )
  })

  test('any text is read as an IP address or not at all', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[\d.:[\]%a-f, ]{0,40}$/)), text => {
        const address = readForwardedAddress(text)
        expect(address === null || (isIP(address) > 0 && !address.includes('%'))).toBe(true)
      }),
    )
  })

  test('what a client writes in front of the proxy’s own entry changes nothing', () => {
    fc.assert(
      fc.property(fc.string(), written, (before, [address, text]) => {
        fc.pre(
          compileProxies(['10.0.0.0/8'])?.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4') === false,
        )
        expect(findClientAddress(PROXY, TRUSTED, `${before}, ${text}`)).toBe(readForwardedAddress(address))
      }),
    )
  })
})
