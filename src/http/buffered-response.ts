import type { ServerResponse } from 'node:http'
import { endTogether } from './batched-flush.ts'
import { type ByteString, NO_BYTES } from './byte-string.ts'

/** An answer that is known whole before its first byte is written. */
export interface BufferedResponse {
  readonly status: number
  /** Names and values in turn. */
  readonly fields: readonly string[]
  /** The field of the body's length; none where the status allows for no body. */
  readonly length: readonly string[]
  readonly body: ByteString | Buffer
}

/** @returns names and values in turn */
export function fieldsOf(headers: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(headers).flat()
}

/**
 * @param fields names and values in turn, the body's length not among them
 * @param body null where the status allows for none
 */
export function bufferedResponse(
  status: number,
  fields: readonly string[],
  body: ByteString | Buffer | null,
): BufferedResponse {
  if (body === null) return { status, fields, length: [], body: NO_BYTES }
  return { status, fields, length: ['content-length', String(body.length)], body }
}

/**
 * Written past Fastify, whose way through serialisers and hooks, none of which there are, costs as much as Node's own.
 * Includes fields set on the response before, such as those of rate limits.
 * @returns bytes of the body
 */
export function writeBuffered(response: ServerResponse, answer: BufferedResponse, requestId: string): number {
  const { status, fields, length, body } = answer
  response.writeHead(status, [...otherFields(fields, response), 'x-request-id', requestId, ...length])
  endTogether(response, body)
  return body.length
}

/**
 * Drops fields that the gateway sets itself, such as those of rate limits or of the connection.
 * @param fields names and values in turn
 */
export function otherFields(fields: readonly string[], response: ServerResponse): readonly string[] {
  const own = response.getHeaderNames()
  if (own.length === 0) return fields
  return fields.filter((_, index) => !own.includes(fields[index - (index % 2)] ?? ''))
}

/** The same. @param headers of this answer alone */
export function withoutOwn(
  headers: Record<string, string>,
  response: ServerResponse,
): Record<string, string> {
  for (const name of response.getHeaderNames()) delete headers[name]
  return headers
}
