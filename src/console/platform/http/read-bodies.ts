import { parse as parseForm } from 'node:querystring'
import type { FastifyInstance } from 'fastify'
import { percentDecoded } from '../../../domain/form/text.ts'
import { hasBody } from '../../../http/request-boundaries.ts'
import { asError } from '../../../observability/failure-log.ts'
import { ApiError } from './api-error.ts'

/** No call needs more: an import has 1,000 keys of about a hundred values, a usage report 10,000 entries of eight. */
const MAX_JSON_VALUES = 150_000

/** JSON is the only type of body. An empty one counts as none. */
export function readJsonOnly(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (body.length === 0) return done(null, null)
    if (hasMoreValues(body, MAX_JSON_VALUES)) {
      return done(new ApiError('request_too_large', `The body has more than ${MAX_JSON_VALUES} values`))
    }
    let text: string
    try {
      text = readJsonText(body)
    } catch (error) {
      // Thrown here, it would reach no error handler.
      return done(asError(error))
    }
    parse(request, text, done)
  })
}

/** Adds forms, whose number of fields the size of a body bounds. */
export function readForms(app: FastifyInstance): void {
  const options = { parseAs: 'buffer' } as const
  app.addContentTypeParser<Buffer>('application/x-www-form-urlencoded', options, (_, body, done) => {
    try {
      done(null, parseForm(readFormText(body), '&', '=', { maxKeys: 0 }))
    } catch (error) {
      done(asError(error))
    }
  })
}

/**
 * Asks a client that waits for a 100 for its body only once the request is authenticated. Closes the connection after a
 * response that came before the body, such as a 401: the rest would otherwise occupy the connection for as long as a
 * client may take to send it.
 */
export function admitBeforeBody(app: FastifyInstance): void {
  app.addHook('preParsing', async ({ raw, is404 }, reply) => {
    const waits = raw.headers.expect !== undefined && raw.httpVersion === '1.1'
    if (!waits || is404 || !hasBody(raw)) return
    if (!raw.complete) reply.raw.writeContinue()
    // Node would close the connection, because no 100 was sent (RFC 9110, section 10.1.1, allows to omit it).
    else if (reply.raw.shouldKeepAlive) void reply.header('connection', 'keep-alive')
  })
  app.addHook('onSend', async ({ raw }, reply) => {
    if (hasBody(raw) && !raw.complete) void reply.header('connection', 'close')
  })
}

const QUOTE = 0x22
const COMMA = 0x2c
const BRACKET = 0x5b
const BACKSLASH = 0x5c
const BRACE = 0x7b

/** Whether a JSON text holds more values than this. Checked before it is parsed: `{},` has three bytes, and its value many more. */
function hasMoreValues(json: Uint8Array, most: number): boolean {
  let values = 1
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]
    if (byte === QUOTE) at = findStringEnd(json, at)
    else if (byte === COMMA || byte === BRACKET || byte === BRACE) values++
    if (values > most) return true
  }
  return false
}

/** @param start of its opening quote. @returns the place of the closing one, or the end of a text without one */
function findStringEnd(json: Uint8Array, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    if (json[at] === QUOTE) return at
    if (json[at] === BACKSLASH) at++
  }
  return json.length
}

/** Each escape of JSON, one after the other: an escaped backslash before `u0000` makes no NUL. */
const ESCAPE = /\\(?:u([0-9a-f]{4})|[^u])/gi
/** Most bodies have no such escape, and are read once. */
const SUSPICIOUS_ESCAPE = /\\u(?:0000|d[89a-f])/i
const ESCAPE_LENGTH = 6
const HALF = 'A string holds half a surrogate pair'
/** What a request target consists of (RFC 3986, section 2). */
const TARGET = /^[\x21-\x7e]*$/

/** Text that no database stores as it is: PostgreSQL rejects NUL, and half a surrogate pair becomes another character. */
export class UnstorableText extends Error {}

/** @throws UnstorableText if a part of the path or query is not UTF-8, or holds NUL */
export function requireStorableTarget(target: string): void {
  if (!TARGET.test(target)) throw new UnstorableText('The request target has a character outside ASCII')
  requireStorablePercents(target)
}

/** @returns the text of a form, still encoded @throws UnstorableText if it is not UTF-8, or holds NUL */
function readFormText(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes)
  requireStorablePercents(text)
  return text
}

/** @returns the text of a JSON body @throws UnstorableText if it is not UTF-8, or a string or name in it holds NUL or half a surrogate pair */
export function readJsonText(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes)
  if (SUSPICIOUS_ESCAPE.test(text)) requireStorableEscapes(text)
  return text
}

/** An octet of UTF-8 is percent-encoded or, in a form of a careless client, as it is. */
function requireStorablePercents(text: string): void {
  const decoded = percentDecoded(text)
  if (decoded === null) throw new UnstorableText('A percent-encoded part is not UTF-8')
  if (decoded.includes('\0')) throw new UnstorableText('A percent-encoded part holds NUL')
}

/** The escape of a second half must follow that of the first at once: then both are one character. */
function requireStorableEscapes(json: string): void {
  let secondHalfAt = -1
  for (const { 1: digits = '', index } of json.matchAll(ESCAPE)) {
    const unit = Number.parseInt(digits, 16)
    const isSecond = unit >= 0xdc00 && unit <= 0xdfff
    const isDue = secondHalfAt >= 0
    if (isSecond !== isDue || (isDue && index !== secondHalfAt)) throw new UnstorableText(HALF)
    if (unit === 0) throw new UnstorableText('A string holds NUL')
    secondHalfAt = unit >= 0xd800 && unit <= 0xdbff ? index + ESCAPE_LENGTH : -1
  }
  if (secondHalfAt >= 0) throw new UnstorableText(HALF)
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new UnstorableText('The body is not UTF-8')
  }
}
