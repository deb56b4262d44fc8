import type { ServerResponse } from 'node:http'
import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync, zstdDecompressSync } from 'node:zlib'
import { type Denial, denied } from '../domain/denial.ts'
import {
  type BufferedResponse,
  type ByteString,
  bufferedResponse,
  dropOwnHeaders,
  flushInBatch,
  handOver,
  NO_BYTES,
  OWN_JSON_FIELDS,
  toByteString,
  toFieldList,
  writeBuffered,
} from '../http/buffered-response.ts'
import { abortConnection } from '../http/guard-connections.ts'
import type { RequestObservation } from '../observability/request-observation.ts'
import type { ClientRequest, Deny } from './client-request.ts'
import type { BodySink, UpstreamHeaders, UpstreamResponse } from './pool/exchange-parties.ts'
import { toDenialReason, type UpstreamFailure } from './pool/failure.ts'
import { nameFault, type PolicyDecision } from './response-policy.ts'

export type PassedResponse = Extract<PolicyDecision, { kind: 'pass' }>

/** @returns sink for the body; null if it is not needed */
export function respond(
  request: ClientRequest,
  upstreamResponse: UpstreamResponse,
  decision: PolicyDecision,
  deny: Deny,
): BodySink | null {
  if (decision.kind === 'denied') {
    denyRejected(request, upstreamResponse, decision, deny)
    return null
  }
  beginUpstreamResponse(request.observation)
  if (decision.kind === 'reject') {
    return new RejectionSink(body => {
      respondBuffered(request, rejectionResponse(upstreamResponse, decision.retryAfter, body))
    })
  }
  if (decision.hasBody) return new ClientSink(request, upstreamResponse, decision, deny)
  flushInBatch(writeHead(request, upstreamResponse.statusCode, decision.headers), NO_BYTES)
  return null
}

/** Sends a complete response of the upstream. */
export function respondBuffered({ response, observation }: ClientRequest, buffered: BufferedResponse): void {
  beginUpstreamResponse(observation)
  observation.responseBytes = writeBuffered(response, buffered, observation.requestId)
}

/** The exchange itself succeeded: only `upstreamStatus` tells the log which response was rejected. */
export function denyRejected(
  request: ClientRequest,
  { statusCode, headers }: Pick<UpstreamResponse, 'statusCode' | 'headers'>,
  denial: Denial,
  deny: Deny,
): void {
  request.observation.upstreamStatus = statusCode
  if (denial.reason === 'upstream_error') request.observation.fault = nameFault(statusCode, headers)
  deny(request, denial)
}

/** @param failure null if the client caused it */
export function denyAfterFailure(request: ClientRequest, failure: UpstreamFailure | null, deny: Deny): void {
  if (failure !== null) request.observation.fault = failure.kind
  deny(request, denied(failure === null ? 'upstream_error' : toDenialReason(failure.kind)))
}

function beginUpstreamResponse(observation: RequestObservation): void {
  observation.source = 'upstream'
  observation.phase = 'streaming'
}

/** Uses Node's response, because Fastify adds a stream and listeners. @param headers changed in place */
function writeHead(
  { response, observation }: ClientRequest,
  statusCode: number,
  headers: Record<string, string>,
): ServerResponse {
  headers['x-content-type-options'] = 'nosniff'
  headers['x-request-id'] = observation.requestId
  return response.writeHead(statusCode, dropOwnHeaders(headers, response))
}

/** @param body null if it was longer than `MAX_REJECTION_BYTES` or incomplete */
export function rejectionResponse(
  { statusCode, headers }: { statusCode: number; headers: UpstreamHeaders },
  retryAfter: string | null,
  body: Buffer | null,
): BufferedResponse {
  const fields = retryAfter === null ? OWN_JSON_FIELDS : { ...OWN_JSON_FIELDS, 'retry-after': retryAfter }
  const rejection = readRejection(body, headers['content-encoding'])
  return bufferedResponse(statusCode, toFieldList(fields), toByteString(JSON.stringify(rejection)))
}

/**
 * Reading from the upstream pauses while this much of a body waits for the client. With Node's default of 64 KiB, a
 * client that does not read would occupy three times as much memory.
 */
const MAX_UNSENT_BYTES = 16 * 1024

/** Sends a body to the client. The head leaves with the first chunk, so that an earlier failure becomes a denial. */
class ClientSink implements BodySink {
  readonly #request: ClientRequest
  readonly #upstreamResponse: UpstreamResponse
  readonly #passed: PassedResponse
  readonly #deny: Deny
  #hasBegun = false
  #completeBody: ByteString | null = null

  constructor(
    request: ClientRequest,
    upstreamResponse: UpstreamResponse,
    passed: PassedResponse,
    deny: Deny,
  ) {
    this.#request = request
    this.#upstreamResponse = upstreamResponse
    this.#passed = passed
    this.#deny = deny
  }

  writeAll(body: Buffer): void {
    this.#request.observation.responseBytes = body.length
    this.#completeBody = toByteString(body)
  }

  write(chunk: Buffer): 'continue' | 'pause' {
    this.#request.observation.responseBytes += chunk.length
    const response = this.#begin()
    // Without cork and uncork Node writes in the next turn, and `writableLength` does not tell what is unsent.
    response.socket?.cork()
    response.write(chunk, error => this.#onWritten(chunk, error))
    response.socket?.uncork()
    return response.writableLength < MAX_UNSENT_BYTES ? 'continue' : 'pause'
  }

  end(): void {
    const response = this.#begin()
    // Node writes a string together with the head.
    if (this.#completeBody === null) handOver(response)
    else flushInBatch(response, this.#completeBody)
  }

  fail(failure: UpstreamFailure | null): void {
    const { response, observation } = this.#request
    if (!this.#hasBegun) {
      denyAfterFailure(this.#request, failure, this.#deny)
      return
    }
    if (failure !== null) {
      observation.fault = failure.kind
      observation.truncated = true
    }
    // If only the close ends the body (HTTP/1.0), an orderly close would make it look complete.
    const hasLength = this.#passed.headers['content-length'] !== undefined
    if (!hasLength && !response.chunkedEncoding) response.socket?.resetAndDestroy()
    abortConnection(response)
  }

  #onWritten(chunk: Buffer, error: Error | null | undefined): void {
    // After an error the response closes, which aborts the exchange.
    if (error != null) return
    release(chunk)
    if (this.#request.response.writableLength < MAX_UNSENT_BYTES) this.#upstreamResponse.resume()
  }

  #begin(): ServerResponse {
    if (this.#hasBegun) return this.#request.response
    this.#hasBegun = true
    return writeHead(this.#request, this.#upstreamResponse.statusCode, this.#passed.headers)
  }
}

/**
 * Gives back at once the memory of a read that was nothing but this part of a body. Otherwise a collection of the whole heap does,
 * after every 64 MB.
 */
function release(sent: Buffer): void {
  const { buffer } = sent
  if (buffer instanceof ArrayBuffer && buffer.byteLength === sent.length) buffer.transfer(0)
}

/** Collects the body of a rejection, up to `MAX_REJECTION_BYTES`. */
export class RejectionSink implements BodySink {
  readonly #respond: (body: Buffer | null) => void
  readonly #chunks: Buffer[] = []
  #length = 0

  /** @param respond receives null for a body that was too long or incomplete */
  constructor(respond: (body: Buffer | null) => void) {
    this.#respond = respond
  }

  write(chunk: Buffer): 'continue' | 'discard' {
    this.#length += chunk.length
    this.#chunks.push(chunk)
    if (this.#length <= MAX_REJECTION_BYTES) return 'continue'
    this.#respond(null)
    return 'discard'
  }

  end(): void {
    this.#respond(Buffer.concat(this.#chunks))
  }

  fail(): void {
    this.#respond(null)
  }
}

/** The error body for a request that the upstream rejected. */
interface Rejection {
  readonly code: string
  readonly error: string
}

type Fields = Readonly<Partial<Record<keyof Rejection, unknown>>>

const MAX_REJECTION_BYTES = 16 * 1024
const DEFAULT_REJECTION: Rejection = { code: 'upstream_rejected', error: 'The service rejected the request' }

type Decode = (body: Buffer) => Buffer
/** Also limits the decoded body: a few bytes can decode to gigabytes. */
const LIMIT = { maxOutputLength: MAX_REJECTION_BYTES }
const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ['', body => body],
  ['identity', body => body],
  ['gzip', body => gunzipSync(body, LIMIT)],
  ['x-gzip', body => gunzipSync(body, LIMIT)],
  ['deflate', inflate],
  ['br', body => brotliDecompressSync(body, LIMIT)],
  ['zstd', body => zstdDecompressSync(body, LIMIT)],
])

/** Some servers leave out the wrapper of zlib (RFC 9110, section 8.4.1.2), whose first byte ends in 8. */
function inflate(body: Buffer): Buffer {
  const isWrapped = ((body[0] ?? 0) & 0x0f) === 8
  return isWrapped ? inflateSync(body, LIMIT) : inflateRawSync(body, LIMIT)
}

/**
 * @param body null if it was longer than `MAX_REJECTION_BYTES` or incomplete
 * @returns the upstream's own `code` and `error` if both are strings, else a default
 */
export function readRejection(
  body: Buffer | null,
  contentEncoding: string | string[] | undefined,
): Rejection {
  const decode = DECODERS.get(String(contentEncoding ?? '').toLowerCase())
  if (body === null || decode === undefined) return DEFAULT_REJECTION
  try {
    // Null has no fields: this throws, too. A decoder drops a byte order mark, which JSON.parse rejects.
    const { code, error }: Fields = JSON.parse(new TextDecoder().decode(decode(body)))
    return typeof code === 'string' && typeof error === 'string' ? { code, error } : DEFAULT_REJECTION
  } catch {
    return DEFAULT_REJECTION
  }
}
