import type { ServerResponse } from 'node:http'
import { type ByteString, NO_BYTES } from './byte-string.ts'
import { flushInBatch } from './flush-in-batch.ts'

/** A response that is complete before its first byte is written. */
export interface BufferedResponse {
  readonly status: number
  /** Names and values alternate. */
  readonly fields: readonly string[]
  /** Name and value of `Content-Length`; empty if the response has none. */
  readonly lengthField: readonly string[]
  readonly body: ByteString | Buffer
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
 * @returns length of the body in bytes
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
  return body.length
}

/**
 * Leaves out the fields that the gateway has set itself, such as those of rate limits or of the connection.
 * @param fields alternating names and values
 */
export function withoutOwnFields(fields: readonly string[], response: ServerResponse): readonly string[] {
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
