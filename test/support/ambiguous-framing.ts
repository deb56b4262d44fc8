import { get } from './raw-client.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'

/** A request head with a key and further lines. */
export const headFor = (key: string, ...lines: readonly string[]): string =>
  [`GET ${WORKSPACE} HTTP/1.1`, 'Host: gw', `Authorization: Bearer ${key}`, ...lines, '', ''].join('\r\n')

const smuggled = 'GET /admin HTTP/1.1\r\nHost: evil123456\r\n\r\n'
export const AMBIGUOUS: readonly [name: string, bytes: (key: string) => string, status: number][] = [
  [
    'Content-Length and Transfer-Encoding',
    key => `${headFor(key, 'Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\nX`,
    400,
  ],
  [
    'Transfer-Encoding and Content-Length',
    key => `${headFor(key, 'Transfer-Encoding: chunked', 'Content-Length: 5')}0\r\n\r\nX`,
    400,
  ],
  [
    'an empty element in Transfer-Encoding',
    key => `${headFor(key, 'Transfer-Encoding: ,chunked')}0\r\n\r\n`,
    400,
  ],
  ['an unknown coding', key => `${headFor(key, 'Transfer-Encoding: xchunked')}0\r\n\r\n`, 400],
  ['identity', key => `${headFor(key, 'Transfer-Encoding: identity')}`, 400],
  ['chunked twice', key => `${headFor(key, 'Transfer-Encoding: chunked, chunked')}0\r\n\r\n`, 400],
  [
    'a vertical tab before the coding',
    key => `${headFor(key, 'Transfer-Encoding:\x0bchunked')}0\r\n\r\n`,
    400,
  ],
  [
    'a no-break space before the coding',
    key => `${headFor(key, 'Transfer-Encoding: \xa0chunked')}0\r\n\r\n`,
    400,
  ],
  [
    'a coding in HTTP/1.0',
    key => `${headFor(key, 'Transfer-Encoding: chunked').replace('HTTP/1.1', 'HTTP/1.0')}0\r\n\r\n`,
    400,
  ],
  ['two lengths', key => `${headFor(key, 'Content-Length: 5', 'Content-Length: 6')}hello`, 400],
  ['a list of lengths', key => `${headFor(key, 'Content-Length: 5, 5')}hello`, 400],
  ['a signed length', key => `${headFor(key, 'Content-Length: +5')}hello`, 400],
  ['a hexadecimal length', key => `${headFor(key, 'Content-Length: 0x5')}hello`, 400],
  ['a negative length', key => `${headFor(key, 'Content-Length: -1')}`, 400],
  ['an overflowing length', key => `${headFor(key, 'Content-Length: 18446744073709551616')}`, 400],
  ['an empty length', key => `${headFor(key, 'Content-Length: ')}`, 400],
  ['a body on a GET', key => `${headFor(key, `Content-Length: ${smuggled.length}`)}${smuggled}`, 400],
  [
    'a chunked body on a GET',
    key => `${headFor(key, 'Transfer-Encoding: chunked')}5\r\nhello\r\n0\r\n\r\n`,
    400,
  ],
  ['a zero-padded length', key => `${headFor(key, 'Content-Length: 005')}hello`, 400],
  [
    'a compression before chunked',
    key => `${headFor(key, 'Transfer-Encoding: gzip, chunked')}0\r\n\r\n`,
    400,
  ],
  ['identity after chunked', key => `${headFor(key, 'Transfer-Encoding: chunked, identity')}0\r\n\r\n`, 400],
  [
    'a next-line character before the coding',
    key => `${headFor(key, 'Transfer-Encoding:\x85chunked')}0\r\n\r\n`,
    400,
  ],
  [
    'a coding on two lines',
    key => `${headFor(key, 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
    400,
  ],
  ['a length with an underscore', key => `${headFor(key, 'Content-Length: 5_0')}hello`, 400],
  ['a length in octal', key => `${headFor(key, 'Content-Length: 010')}hellohel`, 400],
  [
    'a chunk extension of 64 KiB',
    key => `${headFor(key, 'Transfer-Encoding: chunked')}5;ext=${'a'.repeat(65_536)}\r\nhello\r\n0\r\n\r\n`,
    400,
  ],
  [
    'a chunk size with a bare line feed',
    key => `${headFor(key, 'Transfer-Encoding: chunked')}5\nhello\r\n0\r\n\r\n`,
    400,
  ],
  [
    'a chunk size below zero',
    key => `${headFor(key, 'Transfer-Encoding: chunked')}-1\r\nhello\r\n0\r\n\r\n`,
    400,
  ],
  [
    'a chunk size in another notation',
    key => `${headFor(key, 'Transfer-Encoding: chunked')}0x5\r\nhello\r\n0\r\n\r\n`,
    400,
  ],
  [
    'a chunk size that overflows',
    key => `${headFor(key, 'Transfer-Encoding: chunked')}FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n`,
    400,
  ],
  [
    'trailers with a credential and a length',
    key =>
      `${headFor(key, 'Transfer-Encoding: chunked')}0\r\nAuthorization: Bearer x\r\nContent-Length: 0\r\n\r\n`,
    400,
  ],
  [
    'an upgrade to a socket with a length',
    key =>
      `${headFor(key, 'Connection: Upgrade', 'Upgrade: websocket', `Content-Length: ${smuggled.length}`)}${smuggled}`,
    400,
  ],
  ['two spaces before the target', key => headFor(key).replace('GET ', 'GET  '), 400],
  ['two spaces after the target', key => headFor(key).replace(' HTTP', '  HTTP'), 400],
  ['a port above 65535', key => headFor(key).replace('Host: gw', 'Host: gw:65536'), 400],
  ['an expectation with more before it', key => headFor(key, 'Expect: y 100-continue'), 417],
  ['a space after the protocol', key => headFor(key).replace('HTTP/1.1', 'HTTP/1.1 '), 400],
  ['a tab before the target', key => headFor(key).replace('GET ', 'GET\t'), 400],
  ['a name that is only a colon', key => headFor(key, ':'), 400],
  ['a quote in a name', key => headFor(key, 'Na"me: v'), 400],
  ['a brace in a name', key => headFor(key, 'Na{me: v'), 400],
  ['a head that ends with a bare carriage return', key => `${headFor(key).slice(0, -2)}\rX`, 400],
  ['a folded line at the start', key => headFor(key).replace('Host', ' Host'), 400],
  ['a folded length', key => headFor(key, 'Content-Length:\r\n 5'), 400],
  ['a folded line', key => `${headFor(key, 'X: a\r\n b')}`, 400],
  [
    'a folded credential',
    key => `GET ${WORKSPACE} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer\r\n ${key}\r\n\r\n`,
    400,
  ],
  ['bare line feeds', _key => `GET ${WORKSPACE} HTTP/1.1\nHost: gw\n\n`, 400],
  ['a bare line feed between lines', key => headFor(key, 'A: b\nC: d'), 400],
  ['a bare carriage return', key => headFor(key, 'A: b\rC: d'), 400],
  ['a line without a name', key => headFor(key, ': v'), 400],
  ['a line without a colon', key => headFor(key, 'Name value'), 400],
  ['a space before the colon', key => headFor(key, 'Content-Length : 0'), 400],
  ['a name beyond ASCII', key => headFor(key, 'N\x85me: v'), 400],
  ['a parenthesis in a name', key => headFor(key, 'Na(me: v'), 400],
  [
    'an expectation with a body',
    key => `${headFor(key, 'Expect: 100-continue', `Content-Length: ${smuggled.length}`)}${smuggled}`,
    400,
  ],
  ['an unknown expectation', key => headFor(key, 'Expect: banana'), 417],
  ['an empty expectation', key => headFor(key, 'Expect: '), 417],
  ['HTTP/0.9', _key => `GET ${WORKSPACE}\r\n\r\n`, 400],
  ['HTTP/1.2', key => headFor(key).replace('HTTP/1.1', 'HTTP/1.2'), 400],
  ['HTTP/2.0', key => headFor(key).replace('HTTP/1.1', 'HTTP/2.0'), 400],
  ['HTTP/0.9 by name', key => headFor(key).replace('HTTP/1.1', 'HTTP/0.9'), 400],
  ['a lower-case protocol', key => headFor(key).replace('HTTP/1.1', 'http/1.1'), 400],
  ['the preface of HTTP/2', _key => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['a TLS hello', _key => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
  ['the PROXY protocol', _key => 'PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n', 400],
  ['no Host', key => `GET ${WORKSPACE} HTTP/1.1\r\nAuthorization: Bearer ${key}\r\n\r\n`, 400],
  ['two Hosts', key => headFor(key, 'Host: gw'), 400],
  ['an empty Host', key => headFor(key).replace('Host: gw', 'Host: '), 400],
  ['a Host with a path', key => headFor(key).replace('Host: gw', 'Host: gw/evil'), 400],
  ['a NUL in the target', _key => `GET ${WORKSPACE}\x00 HTTP/1.1\r\nHost: gw\r\n\r\n`, 400],
  ['a NUL in a value', key => headFor(key, 'X: a\x00b'), 400],
  ['an unknown method', key => headFor(key).replace('GET', 'BREW'), 400],
  ['a target above every limit', key => get(`${WORKSPACE}?${'a'.repeat(30_000)}`, key), 414],
  ['a target over 8 KiB', key => get(`${WORKSPACE}?${'a'.repeat(8200)}`, key), 414],
  ['headers over 16 KiB', key => headFor(key, `X: ${'a'.repeat(17_000)}`), 431],
  ['a head over 24 KiB', key => headFor(key, `X: ${'a'.repeat(30_000)}`), 431],
  [
    '101 header fields',
    key => headFor(key, ...Array.from({ length: 99 }, (_, index) => `X-${index}: y`)),
    431,
  ],
  [
    '2,100 header fields that hide a second credential',
    key =>
      `GET ${WORKSPACE} HTTP/1.1\r\nHost: gw\r\n${'a:b\r\n'.repeat(2100)}Authorization: Bearer ${key}\r\n\r\n`,
    431,
  ],
]
