import type { ServerResponse } from 'node:http'
import { STATUS_CODES } from './node-http.ts'

/** A response that is complete before its first byte is written. */
export interface BufferedResponse {
  readonly status: number
  /** Names and values alternate. */
  readonly fields: readonly string[]
  /** Name and value of `Content-Length`; empty if the response has none. */
  readonly lengthField: readonly string[]
  readonly body: ByteString | Buffer
}

/** Of each JSON response that the process makes itself. */
export const OWN_JSON_FIELDS = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}

/** @returns alternating names and values */
export function toFieldList(headers: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(headers).flat()
}

/**
 * @param fields alternating names and values, without `Content-Length`
 * @param body null if the status allows none
 */
export function bufferedResponse(
  status: number,
  fields: readonly string[],
  body: ByteString | Buffer | null,
): BufferedResponse {
  if (body === null) return { status, fields, lengthField: [], body: NO_BYTES }
  return { status, fields, lengthField: ['content-length', String(body.length)], body }
}

/**
 * Writes to Node's response directly, because Fastify's serialisers and hooks, none of which are used, double the cost.
 * Includes fields set on the response before, such as those of rate limits.
 * @returns bytes of the body that are sent: none in response to HEAD
 */
export function writeBuffered(
  response: ServerResponse,
  buffered: BufferedResponse,
  requestId: string,
): number {
  const { status, fields, lengthField, body } = buffered
  response.writeHead(status, [
    ...withoutOwnFields(fields, response),
    'x-request-id',
    requestId,
    ...lengthField,
  ])
  flushInBatch(response, body)
  return response.req.method === 'HEAD' ? 0 : body.length
}

/**
 * Leaves out the fields that the gateway has set itself, such as those of rate limits or of the connection.
 * @param fields alternating names and values
 */
function withoutOwnFields(fields: readonly string[], response: ServerResponse): readonly string[] {
  const own = response.getHeaderNames()
  if (own.length === 0) return fields
  return fields.filter((_, index) => !own.includes(fields[index - (index % 2)] ?? ''))
}

/** Deletes the headers that the gateway has set itself. @param headers changed in place */
export function dropOwnHeaders(
  headers: Record<string, string>,
  response: ServerResponse,
): Record<string, string> {
  for (const name of response.getHeaderNames()) delete headers[name]
  return headers
}

interface PendingFlush {
  readonly response: ServerResponse
  readonly body: ByteString | Buffer
}

/** Bounds how long a response waits for the others of a busy turn of the event loop. */
export const MAX_BATCH = 16

let pending: PendingFlush[] = []

/**
 * Ends a response whose head is set, in one batch with the others that are ready in the same turn of the event loop.
 * The first write wakes the reading process, which costs as much as the write itself. Later writes in the turn do not.
 */
export function flushInBatch(response: ServerResponse, body: ByteString | Buffer): void {
  if (pending.length === 0) setImmediate(flush)
  pending.push({ response, body })
  if (pending.length === MAX_BATCH) flush()
}

function flush(): void {
  const batch = pending
  pending = []
  for (const { response, body } of batch) handOver(response, body)
}

/** Our own event: Node emits none of this name. */
const HANDED_OVER = 'handedOver'

/** Passes the rest of a response to Node. A slow client then occupies its own connection only. */
export function handOver(response: ServerResponse, body?: string | Uint8Array): void {
  if (body === undefined) response.end()
  else response.end(body, 'latin1')
  response.emit(HANDED_OVER)
}

/** Calls `listener` when the response is handed over. An aborted response emits `close` only. */
export function onHandedOver(response: ServerResponse, listener: () => void): void {
  response.on(HANDED_OVER, listener)
}

/** A string with one character per byte. Node writes it as latin1 together with the head, in one piece. */
export type ByteString = string & { readonly [perByte]: true }
declare const perByte: unique symbol

/** Shared by short strings: allocating a buffer for each doubles the time. */
const scratch = Buffer.alloc(1024)
const MAX_BYTES_PER_UNIT = 3

/** @param body bytes, or a string to encode in UTF-8 */
export function toByteString(body: string | Buffer): ByteString {
  if (typeof body !== 'string') return asByteString(body.toString('latin1'))
  const fits = body.length * MAX_BYTES_PER_UNIT <= scratch.length
  const length = fits ? scratch.write(body) : Buffer.byteLength(body)
  if (length === body.length) return asByteString(body)
  const bytes = fits ? scratch : Buffer.from(body)
  return asByteString(bytes.toString('latin1', 0, length))
}

/** The caller guarantees that no character is above U+00FF and that each one is a byte. */
export function asByteString(text: string): ByteString {
  return text as ByteString
}

export const NO_BYTES = asByteString('')

/** A complete response as text, for a connection that has no response object. The connection closes after it. */
export function rawResponse(status: number, headers: Readonly<Record<string, string>>, body: string): string {
  const fields = {
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    date: new Date().toUTCString(),
    connection: 'close',
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`
}
