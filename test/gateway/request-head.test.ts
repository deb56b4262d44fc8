import { describe, expect, it } from 'vitest'
import { readHead } from '../../src/gateway/request-head.ts'

type Field = readonly [name: string, value: string]

const HOST: Field = ['Host', 'gw']

function read(fields: readonly Field[], more: { httpVersion?: string; url?: string } = {}) {
  return readHead({ httpVersion: '1.1', url: '/', rawHeaders: fields.flat(), ...more })
}

function reasonOf(...request: Parameters<typeof read>): string {
  const result = read(...request)
  return result.ok ? 'valid' : result.reason
}

describe('a request has exactly one Host', () => {
  it.each([
    'gw',
    'gw:8080',
    'gw:',
    'gw:65535',
    'api.example.com',
    '127.0.0.1',
    '[::1]',
    '[::1]:8080',
    'a_b',
    'GW',
    'gw%2eexample',
    "a!$&'()*+,;=~-b",
  ])('such as %s', host => {
    expect(reasonOf([['Host', host]])).toBe('valid')
  })

  it.each<[string, Field[]]>([
    ['none', []],
    ['two', [HOST, HOST]],
    ['two in different case', [HOST, ['hOsT', 'evil']]],
    ['an empty one', [['Host', '']]],
    ['one with a path', [['Host', 'gw/x']]],
    ['one with a user', [['Host', 'user@gw']]],
    ['one with a space', [['Host', 'gw evil']]],
    ['one with a port that is no number', [['Host', 'gw:80a']]],
    ['one with a port too long', [['Host', 'gw:123456']]],
    ['one with an incomplete escape', [['Host', 'gw%2']]],
    ['one with a port above 65535', [['Host', 'gw:65536']]],
    ['one too long', [['Host', 'x'.repeat(254)]]],
    ['an unclosed address literal', [['Host', '[::1']]],
    ['one with a line break', [['Host', 'gw\n']]],
  ])('and is rejected with %s', (_, fields) => {
    expect(reasonOf(fields)).toBe('malformed_request')
  })
})

it('a port of the Host is valid up to 65535, with or without leading zeros', () => {
  const valid = Array.from({ length: 100_000 }, (_, port) => port).filter(
    port => reasonOf([['Host', `gw:${port}`]]) === 'valid',
  )
  expect(valid).toEqual(Array.from({ length: 65_536 }, (_, port) => port))
  expect(reasonOf([['Host', 'gw:00080']])).toBe('valid')
})

describe('a request is HTTP/1.0 or 1.1', () => {
  it.each([
    ['1.0', 'valid'],
    ['1.1', 'valid'],
    ['0.9', 'malformed_request'],
    ['1.2', 'malformed_request'],
    ['2.0', 'malformed_request'],
    ['', 'malformed_request'],
  ])('%s is %s', (httpVersion, expected) => {
    expect(reasonOf([HOST], { httpVersion })).toBe(expected)
  })
})

describe('a request is valid up to its limits', () => {
  it.each([
    ['a URL of 8 KiB', 8192, 'valid'],
    ['a URL of one byte more', 8193, 'url_too_long'],
  ])('%s', (_, length, expected) => {
    expect(reasonOf([HOST], { url: `/${'x'.repeat(length - 1)}` })).toBe(expected)
  })

  it.each([
    ['100 fields', 100, 'valid'],
    ['101 fields', 101, 'headers_too_large'],
  ])('%s', (_, count, expected) => {
    const others = Array.from({ length: count - 1 }, (): Field => ['a', 'b'])
    expect(reasonOf([HOST, ...others])).toBe(expected)
  })

  it.each([
    ['16 KiB of headers, separators and line ends counted', 0, 'valid'],
    ['one byte more', 1, 'headers_too_large'],
  ])('%s', (_, more, expected) => {
    const rest = 16 * 1024 - 'Host: gw\r\n'.length - 'a: \r\n'.length
    expect(reasonOf([HOST, ['a', 'x'.repeat(rest + more)]])).toBe(expected)
    const half = Math.floor((rest - 'a: \r\n'.length) / 2)
    const filler = 'x'.repeat(rest - 'a: \r\n'.length - half + more)
    expect(reasonOf([HOST, ['a', 'x'.repeat(half)], ['a', filler]])).toBe(expected)
  })

  it('the URL is checked first, then the size, then the form', () => {
    const large: Field = ['a', 'x'.repeat(17_000)]
    expect(reasonOf([large], { url: `/${'x'.repeat(9000)}` })).toBe('url_too_long')
    expect(reasonOf([large])).toBe('headers_too_large')
  })
})

describe('a body', () => {
  it.each<[string, Field[], boolean]>([
    ['no field', [], false],
    ['a length of 0', [['Content-Length', '0']], false],
    ['a length above 0', [['Content-Length', '39']], true],
    ['a length in upper case', [['CONTENT-LENGTH', '1']], true],
    ['a length of 00', [['Content-Length', '00']], true],
    ['an empty length', [['Content-Length', '']], true],
    [
      'two lengths, one of them above 0',
      [
        ['Content-Length', '0'],
        ['Content-Length', '5'],
      ],
      true,
    ],
    ['a chunked coding', [['Transfer-Encoding', 'chunked']], true],
    ['a chunked coding in different case', [['transfer-encoding', 'CHUNKED']], true],
  ])('is present or absent with %s', (_, fields, hasBody) => {
    const result = read([HOST, ...fields])
    expect(result.ok && result.head.hasBody).toBe(hasBody)
  })

  it.each([
    ',chunked',
    'xchunked',
    'identity',
    'gzip, chunked',
    'chunked, identity',
    'chunked, chunked',
    '\u00a0chunked',
    '\u000bchunked',
    'chunked;q=1',
    '',
  ])('is rejected in any coding except one plain chunked: %j', coding => {
    expect(reasonOf([HOST, ['Transfer-Encoding', coding]])).toBe('malformed_request')
  })

  it('is rejected in two codings, and in any coding of HTTP/1.0', () => {
    const chunked: Field = ['Transfer-Encoding', 'chunked']
    expect(reasonOf([HOST, chunked, chunked])).toBe('malformed_request')
    expect(reasonOf([HOST, chunked], { httpVersion: '1.0' })).toBe('malformed_request')
  })
})

describe('a valid head', () => {
  it('holds all Authorization fields in any case, and no field of a similar name', () => {
    const result = read([
      HOST,
      ['authorization', 'Bearer a'],
      ['AUTHORIZATION', 'Bearer b'],
      ['Authorizatiom', 'Bearer c'],
      ['Authorization ', 'Bearer d'],
    ])
    expect(result).toMatchObject({
      ok: true,
      head: { host: 'gw', authorization: ['Bearer a', 'Bearer b'], hasBody: false },
    })
  })

  it.each(['From', 'Accept', 'Authorizatiom', 'Content-Lengtx', 'Transfer-Encodinx'])(
    'may have a field as long as one that counts: %s',
    name => {
      const expected = { ok: true, head: { host: 'gw', authorization: [], hasBody: false } }
      expect(read([HOST, [name, 'x']])).toEqual(expected)
    },
  )

  it.each(['__proto__', 'constructor', 'toString'])('may have a field called %s', name => {
    expect(reasonOf([HOST, [name, 'x']])).toBe('valid')
    expect({}).not.toHaveProperty('x')
  })
})
