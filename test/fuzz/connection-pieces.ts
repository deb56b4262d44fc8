import type { Piece, PieceMaker } from './connection-plans.ts'

interface PieceKinds {
  /** Requests after which the connection stays open. */
  readonly lawful: readonly PieceMaker[]
  /** Input after which nothing is read. */
  readonly ending: readonly PieceMaker[]
  /** The last request of a client that says so. */
  readonly last: PieceMaker
  /** A head that stays incomplete. */
  readonly partial: PieceMaker
}

const WORKSPACE = '/api/v1/workspaces/ws_1'

interface Parts {
  readonly line?: string
  readonly lines?: readonly string[]
  /** Replaces the credential line. */
  readonly credential?: readonly string[]
  readonly body?: string
}

function request(marker: string, parts: Parts): string {
  const {
    line = `GET ${WORKSPACE} HTTP/1.1`,
    lines = [],
    credential = ['Authorization: Bearer {key}'],
  } = parts
  const fields = ['Host: gw', ...credential, `X-Request-Id: ${marker}`, ...lines]
  return [line, ...fields, '', parts.body ?? ''].join('\r\n')
}

/** Its response carries its name, and the connection stays open. */
function lawful(statuses: readonly number[], parts: Parts, more: Partial<Piece> = {}): PieceMaker {
  return marker => ({
    text: request(marker, parts),
    statuses,
    after: 'open',
    marker,
    answeredByName: true,
    ...more,
  })
}

/** The upstream acts on the suffix of the name. */
function forwarded(suffix: string, parts: Parts = {}): PieceMaker {
  return marker => lawful([200], parts, { effect: 'forwarded' })(marker + suffix, () => 0)
}

/** The head is read, so that the response carries its name; the connection closes. */
function ending(statuses: readonly number[], parts: (marker: string) => Parts): PieceMaker {
  return marker => ({
    text: request(marker, parts(marker)),
    statuses,
    after: 'end',
    marker,
    answeredByName: true,
  })
}

/** Not a request: the response may carry any id. */
function malformed(parts: (marker: string) => Parts, statuses: readonly number[] = [400]): PieceMaker {
  return marker => ({ text: request(marker, parts(marker)), statuses, after: 'end', marker })
}

function broken(text: string, statuses: readonly number[] = [400]): PieceMaker {
  return () => ({ text, statuses, after: 'end' })
}

/** A valid request at a place where none may be read. */
function smuggled(marker: string): string {
  return request(`${marker}-smuggled`, {})
}

function withBody(marker: string, line?: string): Parts {
  const body = smuggled(marker)
  return { ...(line === undefined ? {} : { line }), lines: [`Content-Length: {length}`], body }
}

function inChunks(marker: string, line?: string): Parts {
  const body = `{chunk}${smuggled(marker)}{/chunk}0\r\n\r\n`
  return { ...(line === undefined ? {} : { line }), lines: ['Transfer-Encoding: chunked'], body }
}

const UPGRADES: readonly (readonly string[])[] = [
  ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='],
  ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA'],
  ['Upgrade: foo', 'Connection: keep-alive, upgrade'],
  ['Upgrade: websocket'],
  ['Connection: Upgrade', 'Upgrade: foo', 'Upgrade: bar'],
]

/** Ignored: what follows is the next request. */
const offers: readonly PieceMaker[] = [
  ...UPGRADES.map(lines => forwarded('', { lines })),
  forwarded('', { lines: ['Expect: 100-continue'] }),
  forwarded('-slow', { lines: [...(UPGRADES[0] ?? []), 'Expect: 100-Continue'] }),
  lawful([401], { lines: UPGRADES[0] ?? [], credential: [] }),
  lawful([404], { lines: UPGRADES[0] ?? [], line: 'POST /nowhere HTTP/1.1' }),
]

const endingOffers: readonly PieceMaker[] = [
  ending([400], marker => ({
    lines: [...(UPGRADES[0] ?? []), 'Content-Length: {length}'],
    body: smuggled(marker),
  })),
  ending([404], marker => ({
    line: 'POST /nowhere HTTP/1.1',
    lines: [...(UPGRADES[1] ?? []), 'Transfer-Encoding: chunked'],
    body: `{chunk}${smuggled(marker)}{/chunk}0\r\n\r\n`,
  })),
  ending([400], marker => ({
    lines: ['Expect: 100-continue', 'Content-Length: {length}'],
    body: smuggled(marker),
  })),
  malformed(() => ({ lines: ['Expect: 200-ok'] }), [417]),
]

const BROKEN: readonly PieceMaker[] = [
  broken('\x01\x02\x03\r\n\r\n'),
  broken('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'),
  broken('BREW / HTTP/1.1\r\nHost: gw\r\n\r\n'),
  broken('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  broken('}\r\n'),
]

const malformedHeads: readonly PieceMaker[] = [
  malformed(() => ({ line: `GET ${WORKSPACE} HTTP/1.2` })),
  malformed(() => ({ line: `GET ${WORKSPACE} HTTP/2.0` })),
  malformed(() => ({ line: `GET ${WORKSPACE} HTTP/0.9` })),
  malformed(() => ({ line: `GET ${WORKSPACE} http/1.1` })),
  malformed(() => ({ lines: ['X-A : b'] })),
  malformed(() => ({ lines: ['X-A: b\r\n c'] })),
  malformed(() => ({ lines: ['X-A: b\x00'] })),
  malformed(() => ({ lines: ['Transfer-Encoding: chunked', 'Content-Length: 3'], body: '0\r\n\r\n' })),
  malformed(() => ({ lines: ['Content-Length: +3'], body: 'abc' })),
  malformed(() => ({ lines: [`X-A: ${'a'.repeat(30_000)}`] }), [431]),
]

const severalSpaces: readonly PieceMaker[] = [
  malformed(() => ({ line: `GET  ${WORKSPACE} HTTP/1.1` })),
  malformed(() => ({ line: `GET ${WORKSPACE}  HTTP/1.1` })),
  malformed(() => ({ line: `GET ${WORKSPACE} HTTP/1.1 ` })),
  malformed(() => ({ line: `GET   ${WORKSPACE}   HTTP/1.1` })),
]

const partialHead: PieceMaker = (marker, random) => {
  const text = request(marker, {})
  return { text: text.slice(0, 1 + Math.floor(random() * 40)), statuses: [400, 408], after: 'end' }
}

const FORWARDED: readonly PieceMaker[] = [
  forwarded(''),
  forwarded('', { line: `GET ${WORKSPACE}/files?limit=7 HTTP/1.1` }),
  forwarded('-slow'),
  forwarded('-slow', { line: `GET ${WORKSPACE}/files HTTP/1.1` }),
  forwarded('-big'),
]

export const GATEWAY_PIECES: PieceKinds = {
  lawful: [
    ...FORWARDED,
    ...FORWARDED,
    ...offers,
    lawful([200], { line: 'GET /api/v1/auth HTTP/1.1' }),
    lawful([200], { line: 'GET /api/v1/auth HTTP/1.1', lines: ['Content-Length: 0'] }),
    lawful([200], { line: 'GET /api/v1/auth HTTP/1.1', lines: ['Connection: X-Request-Id, keep-alive'] }),
    lawful([200], { line: '\r\nGET /api/v1/auth HTTP/1.1' }),
    lawful([401], { credential: ['Authorization: Bearer {forged}'] }),
    lawful([401], { credential: [] }),
    lawful([404], { line: 'GET /nowhere HTTP/1.1' }),
    lawful([404], { line: 'GET /api/v1/workspaces/ws_3 HTTP/1.1' }),
    lawful([404], { line: `GET http://gw${WORKSPACE} HTTP/1.1` }),
    lawful([404], { line: 'OPTIONS * HTTP/1.1' }),
    lawful([405], { line: `POST ${WORKSPACE} HTTP/1.1`, lines: ['Content-Length: 0'] }),
    lawful([405], { line: `DELETE ${WORKSPACE} HTTP/1.1` }),
    lawful([405], { line: `HEAD ${WORKSPACE} HTTP/1.1` }, { bodiless: true }),
    lawful(
      [200],
      { line: 'GET /api/v1/auth HTTP/1.0', lines: ['Connection: keep-alive'] },
      { after: 'as_answered' },
    ),
    // Many small requests in one segment.
    () => ({ text: TINY, statuses: [404], after: 'open', repeat: 60 }),
  ],
  ending: [
    ...endingOffers,
    ...BROKEN,
    // HTTP/0.9, whose request line has no version.
    broken('GET /\r\n\r\n'),
    ...malformedHeads,
    ...severalSpaces,
    ending([400], marker => withBody(marker)),
    ending([405], marker => withBody(marker, `POST ${WORKSPACE} HTTP/1.1`)),
    ending([404], marker => withBody(marker, 'POST /nowhere HTTP/1.1')),
    ending([400], marker => inChunks(marker)),
    ending([404], marker => inChunks(marker, 'PUT /nowhere HTTP/1.1')),
    // The body is missing, or malformed after its beginning.
    ending([400], () => ({ lines: ['Content-Length: 100000'], body: 'abc' })),
    ending([400], () => ({ lines: ['Transfer-Encoding: chunked'], body: 'not a chunk\r\n' })),
    malformed(() => ({ lines: ['Host: other'] })),
    marker => ({
      text: request(marker, {}).replace('Host: gw\r\n', ''),
      statuses: [400],
      after: 'end',
      marker,
    }),
    malformed(() => ({ line: `GET /${'a'.repeat(9_000)} HTTP/1.1` }), [414]),
    malformed(() => ({ lines: [`X-A: ${'a'.repeat(17_000)}`] }), [431]),
    broken('CONNECT gw:443 HTTP/1.1\r\nHost: gw:443\r\n\r\n', [400, 404, 405]),
    marker => ({
      ...lawful([200], { lines: ['Connection: close'] })(marker, () => 0),
      after: 'end',
      effect: 'forwarded',
    }),
    marker => ({
      ...lawful([200], { line: `GET ${WORKSPACE} HTTP/1.0` })(marker, () => 0),
      after: 'end',
      effect: 'forwarded',
    }),
  ],
  last: marker => ({
    ...lawful([200], { line: 'GET /api/v1/auth HTTP/1.1', lines: ['Connection: close'] })(marker, () => 0),
    after: 'end',
  }),
  partial: partialHead,
}

/** The smallest request that gets an ordinary response. */
export const TINY = 'GET / HTTP/1.1\r\nHost:x\r\n\r\n'

const KEYS = '/admin/v1/workspaces/ws-{id}/keys'
const TOKEN = ['Authorization: Bearer {token}']

/** Issues a key of that name if the console reads it as a request. */
function issuing(marker: string, lines: readonly string[] = []): Parts {
  return {
    line: `POST ${KEYS} HTTP/1.1`,
    lines: ['Content-Type: application/json', ...lines, 'Content-Length: {length}'],
    credential: TOKEN,
    body: `{"name":"${marker}","scopes":["files:read"]}`,
  }
}

function issued(marker: string, parts: Parts): Piece {
  return {
    text: request(marker, parts),
    statuses: [201],
    after: 'open',
    marker,
    answeredByName: true,
    effect: 'issued',
  }
}

function smuggledIssue(marker: string): string {
  const body = `{"name":"${marker}-smuggled","scopes":["files:read"]}`
  const head = [
    `POST ${KEYS} HTTP/1.1`,
    'Host: gw',
    'Authorization: Bearer {token}',
    'Content-Type: application/json',
  ]
  return [
    ...head,
    'Transfer-Encoding: chunked',
    '',
    `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
  ].join('\r\n')
}

function toConsole(parts: Parts): Parts {
  return { line: `GET ${KEYS} HTTP/1.1`, credential: TOKEN, ...parts }
}

const issues: readonly PieceMaker[] = [
  marker => issued(marker, issuing(marker)),
  marker => issued(marker, issuing(marker, UPGRADES[0])),
  marker => issued(marker, issuing(marker, ['Expect: 100-continue'])),
  marker => ({
    ...issued(marker, {
      line: `POST ${KEYS} HTTP/1.1`,
      lines: ['Content-Type: application/json', 'Transfer-Encoding: chunked'],
      credential: TOKEN,
      body: `9;a=b\r\n{"name":"\r\n{chunk}${marker}","scopes":["files:read"]}{/chunk}0\r\n\r\n`,
    }),
  }),
]

export const CONSOLE_PIECES: PieceKinds = {
  lawful: [
    ...issues,
    ...issues,
    lawful([200], toConsole({})),
    ...UPGRADES.map(lines => lawful([200], toConsole({ lines }))),
    lawful([200], toConsole({ lines: ['Expect: 100-continue'] })),
    lawful([200], toConsole({ line: `GET ${KEYS}?limit=1 HTTP/1.1` })),
    lawful([401], toConsole({ credential: [] })),
    lawful([404], toConsole({ line: 'GET /admin/v1/nowhere HTTP/1.1' })),
    lawful([404, 405], toConsole({ line: `DELETE ${KEYS} HTTP/1.1` })),
    lawful([200, 404, 405], toConsole({ line: `HEAD ${KEYS} HTTP/1.1` }), { bodiless: true }),
    lawful([200, 302, 303, 401, 404], { line: 'GET / HTTP/1.1', credential: [] }),
    lawful([200, 302, 303, 404], { line: 'GET /sign-in HTTP/1.1', credential: [] }),
    // The contract does not say whether these close the connection, so the response must.
    marker => ({ ...issuedNot(marker, '{"name":'), statuses: [400] }),
    marker => ({ ...issuedNot(marker, `"${'a'.repeat(70_000)}"`), statuses: [413] }),
    marker => ({
      text: request(marker, toConsole({ lines: ['Content-Length: {length}'], body: smuggledIssue(marker) })),
      statuses: [200, 400],
      after: 'as_answered',
      marker,
    }),
  ],
  ending: [
    malformed(() => toConsole({ lines: ['Expect: 200-ok'] }), [417]),
    ...BROKEN,
    malformed(() => toConsole({ lines: ['X-A : b'] })),
    malformed(() => toConsole({ line: `GET ${KEYS} HTTP/1.2` })),
    malformed(() => toConsole({ lines: [`X-A: ${'a'.repeat(30_000)}`] }), [431]),
    broken('CONNECT gw:443 HTTP/1.1\r\nHost: gw:443\r\n\r\n', [400, 404, 405]),
    marker => ({
      text: request(marker, toConsole({})).replace('Host: gw\r\n', ''),
      statuses: [400],
      after: 'end',
      marker,
    }),
    marker => ({
      ...lawful([200], toConsole({ lines: ['Connection: close'] }))(marker, () => 0),
      after: 'end',
    }),
    marker => ({ ...issued(marker, issuing(marker, ['Connection: close'])), after: 'end' }),
    marker => ({
      ...lawful([200], toConsole({ line: `GET ${KEYS} HTTP/1.0` }))(marker, () => 0),
      after: 'end',
    }),
  ],
  last: marker => ({
    ...lawful([200], toConsole({ lines: ['Connection: close'] }))(marker, () => 0),
    after: 'end',
  }),
  partial: partialHead,
}

function issuedNot(marker: string, body: string): Piece {
  const { effect: _, ...piece } = issued(marker, { ...issuing(marker), body })
  return { ...piece, after: 'as_answered' }
}
