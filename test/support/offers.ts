/** What Java's HttpClient sends with its first request over plain HTTP. */
export const JAVA = [
  'Connection: Upgrade, HTTP2-Settings',
  'Upgrade: h2c',
  'HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA',
]
/** Header lines that a server may ignore (RFC 9110, sections 7.8 and 10.1.1). */
export const OFFERS: readonly (readonly [name: string, lines: readonly string[]])[] = [
  ['an upgrade to HTTP/2, as Java offers it', JAVA],
  [
    'an upgrade to a WebSocket',
    ['Connection: keep-alive, Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: eA=='],
  ],
  ['an upgrade that Connection does not name', ['Upgrade: websocket']],
  ['two upgrades', ['Connection: Upgrade', 'Upgrade: foo', 'Upgrade: bar/1']],
  ['to wait for a 100, without a body', ['Expect: 100-continue']],
  ['both', [...JAVA, 'expect: 100-Continue', 'Content-Length: 0']],
]
