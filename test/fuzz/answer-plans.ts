import { gzipSync } from 'node:zlib'
import { chance, mutate } from './mutate.ts'
import { readResponse } from './strict-answer.ts'

/** What an upstream does with one request: the bytes, how they are split, and what follows. */
export interface AnswerPlan {
  /** One character per byte. */
  readonly bytes: string
  /** Lengths of the pieces before the last. */
  readonly pieces: readonly number[]
  readonly after: 'keep' | 'end' | 'reset'
}

/** Appears wherever an upstream might name itself; no client may ever receive it. */
export const CANARY = 'canary.internal:10.99.0.7'

const INSIDE = `Server: ${CANARY}\r\nX-Backend: ${CANARY}\r\nSet-Cookie: s=${CANARY}\r\n`
const JSON_TYPE = 'Content-Type: application/json\r\n'

type Lawful = (name: string) => string | Buffer

/** Valid responses of every kind; each contains the name of its exchange where a body may continue. */
const LAWFUL: readonly Lawful[] = [
  name => withLength('200 OK', `{"name":"${name}"}`, `${JSON_TYPE}ETag: "${name}"\r\n`),
  name => withLength('200 OK', `{"name":"${name}","pad":"${'x'.repeat(3000)}"}`, JSON_TYPE),
  name => chunked('200 OK', [`{"name":`, `"${name}"`, '}'], JSON_TYPE),
  name =>
    chunked('200 OK', [`{"name":"${name}",`, `"pad":"${'y'.repeat(1500)}"}`], `${JSON_TYPE}Vary: Accept\r\n`),
  name => `HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n${withLength('200 OK', `"${name}"`, JSON_TYPE)}`,
  name => `HTTP/1.1 102 Wait\r\n\r\n${chunked('201 Made', [`"${name}"`], JSON_TYPE)}`,
  name => chunkedWithMore(name),
  name => withBytes(gzipSync(`{"name":"${name}"}`), `${JSON_TYPE}Content-Encoding: gzip\r\n`),
  name => withLength('200 OK', `"${name}"`, `${JSON_TYPE}Connection: close\r\n`).replace('1.1', '1.0'),
  name => `HTTP/1.1 200 OK\r\n${JSON_TYPE}${INSIDE}\r\n"${name}"`,
  name => `HTTP/1.1 304 Same\r\nETag: "${name}"\r\n${INSIDE}\r\n`,
  () => `HTTP/1.1 204 Nothing\r\n${INSIDE}\r\n`,
  () => withLength('200 OK', `<p>${CANARY}</p>`, 'Content-Type: text/html\r\n'),
  () => withLength('404 Gone', `{"code":"x","error":"${CANARY}"}`, JSON_TYPE),
  name => withLength('409 No', `{"code":"quota","error":"${name}","stack":"${CANARY}"}`, JSON_TYPE),
  () => chunked('422 No', [`{"stack":`, `"${CANARY}"}`], JSON_TYPE),
  () => withLength('503 Later', CANARY, 'Retry-After: 7\r\n'),
  () => withLength('500 Oh', `{"stack":"${CANARY}"}`, JSON_TYPE),
  () => withLength('302 There', '', `Location: http://${CANARY}/\r\n`),
  () => withLength('401 Who', '{}', `WWW-Authenticate: Basic realm="${CANARY}"\r\n`),
]

const PIECES = [
  'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n"poison"',
  'HTTP/1.1 100 Continue\r\n\r\n',
  'HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n',
  'HTTP/1.1 103 Early\r\n\r\n',
  'HTTP/2.0 ',
  'HTTP/1.0 ',
  ' 199 ',
  ' 206 ',
  ' 304 ',
  ' 204 ',
  ' 999 ',
  'Content-Length: 0\r\n',
  'Content-Length: 4\r\n',
  'Content-Length: 99999\r\n',
  'Content-Length: -1\r\n',
  'Content-Length: +4\r\n',
  'Content-Length: 4, 4\r\n',
  'Content-Length : 4\r\n',
  'Content-Length: 18446744073709551620\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding: gzip, chunked\r\n',
  'Transfer-Encoding: chunked, identity\r\n',
  'Transfer-Encoding:\x0bchunked\r\n',
  'Transfer-Encoding: chunked\n',
  'Connection: close\r\n',
  'Connection: Content-Length, Content-Type\r\n',
  'Keep-Alive: timeout=0\r\n',
  'Keep-Alive: timeout=99999999\r\n',
  'Content-Type: application/json, text/html\r\n',
  'Content-Encoding: br\r\n',
  'X: a\r\n b\r\n',
  '0\r\n\r\n',
  '5\r\nhello\r\n',
  'ffffffffffffffff\r\n',
  '4;ext="\r\n',
  '-1\r\n',
  'Trailer: X\r\n',
  '\r\n\r\n',
  '\r\n',
  '\n',
  '\r',
  '\0',
  '\x80',
  ' ',
  '\t',
  ':',
  '0',
  '9',
]

/** @param name of the exchange, for the body */
export function answerPlan(seed: number, name: string): AnswerPlan {
  const random = chance(seed)
  const pick = (count: number) => Math.floor(random() * count)
  const lawful = LAWFUL[pick(LAWFUL.length)]?.(name) ?? ''
  const text = typeof lawful === 'string' ? lawful : lawful.toString('latin1')
  // One in eight stays unchanged, so that valid responses run under the same load.
  const mutated = pick(8) === 0 ? text : mutate(text, random, PIECES)
  const bytes = pick(5) === 0 ? mutated.slice(0, pick(mutated.length + 1)) : mutated
  const after = (['keep', 'keep', 'end', 'reset'] as const)[pick(4)] ?? 'keep'
  return { bytes, pieces: pieces(Buffer.from(bytes, 'latin1'), random), after }
}

/**
 * Where to split the bytes: never after the end of a response. Later bytes no longer belong to it, and count as the
 * response to the next request if there is one: an upstream that mixes its own responses cannot be protected.
 */
function pieces(bytes: Buffer, random: () => number): number[] {
  let end = 0
  for (let read = readResponse(bytes); ; read = readResponse(bytes, end)) {
    if (read.kind === 'whole') end = read.end
    else end = read.kind === 'broken' ? firstBlankLine(bytes, end) : bytes.length
    if (read.kind !== 'whole' || read.head.status >= 200) break
  }
  const lengths: number[] = []
  let left = end - 1
  for (let count = Math.floor(random() * 4); count > 0 && left > 1; count--) {
    const length = 1 + Math.floor(random() * (left - 1))
    lengths.push(length)
    left -= length
  }
  return lengths
}

/** Where even the most lenient parser sees the end of a response that the strict one does not accept. */
function firstBlankLine(bytes: Buffer, from: number): number {
  const at = bytes.toString('latin1', from).search(/\n\r?\n/)
  return at < 0 ? bytes.length : from + at + 1
}

function withLength(status: string, body: string, headers: string): string {
  return `HTTP/1.1 ${status}\r\n${headers}${INSIDE}Content-Length: ${body.length}\r\n\r\n${body}`
}

function withBytes(body: Buffer, headers: string): Buffer {
  const head = `HTTP/1.1 200 OK\r\n${headers}${INSIDE}Content-Length: ${body.length}\r\n\r\n`
  return Buffer.concat([Buffer.from(head, 'latin1'), body])
}

function chunked(status: string, parts: readonly string[], headers: string): string {
  const chunks = [...parts, ''].map(
    part => `${part.length.toString(16)}\r\n${part}${part === '' ? '' : '\r\n'}`,
  )
  return `HTTP/1.1 ${status}\r\n${headers}${INSIDE}Transfer-Encoding: chunked\r\n\r\n${chunks.join('')}\r\n`
}

/** With extensions and trailers, which the gateway drops. */
function chunkedWithMore(name: string): string {
  return chunked('200 OK', [`"${name}"`], `${JSON_TYPE}Trailer: X-End\r\n`)
    .replace(`\r\n"${name}"`, `;a=b;c="d"\r\n"${name}"`)
    .replace(/0\r\n\r\n$/, `0;last\r\nX-End: ${CANARY}\r\n\r\n`)
}
