import type { ServerResponse } from 'node:http'
import { type Denial, denied } from '../domain/denial.ts'
import { endTogether } from '../http/batched-flush.ts'
import {
  type BufferedResponse,
  bufferedResponse,
  fieldsOf,
  withoutOwn,
  writeBuffered,
} from '../http/buffered-response.ts'
import { type ByteString, bytesOf, NO_BYTES } from '../http/byte-string.ts'
import { handOver } from '../http/hand-over.ts'
import type { RequestObservation } from '../observability/request-observation.ts'
import type { ClientRequest, Refuse } from './client-request.ts'
import { denialReasonOf, type UpstreamFailure } from './failure.ts'
import type { BodySink, UpstreamResponse } from './pool/exchange-parties.ts'
import { MAX_REJECTION_BYTES, readRejection } from './rejection.ts'
import type { PolicyDecision, UpstreamHeaders } from './response-policy.ts'

export type PassedResponse = Extract<PolicyDecision, { kind: 'pass' }>

/** @returns where the body goes; null where it is not wanted */
export function respond(
  request: ClientRequest,
  upstreamResponse: UpstreamResponse,
  decision: PolicyDecision,
  refuse: Refuse,
): BodySink | null {
  if (decision.kind === 'denied') {
    refuseRejected(request, upstreamResponse.statusCode, decision, refuse)
    return null
  }
  beginUpstreamResponse(request.observation)
  if (decision.kind === 'reject') {
    return new RejectionBody(body => {
      respondBuffered(request, rejectionResponse(upstreamResponse, decision.retryAfter, body))
    })
  }
  if (decision.hasBody) return new ClientBody(request, upstreamResponse, decision, refuse)
  endTogether(writeHead(request, upstreamResponse.statusCode, decision.headers), NO_BYTES)
  return null
}

/** Answers with a response that is complete, and belongs to the upstream. */
export function respondBuffered({ response, observation }: ClientRequest, buffered: BufferedResponse): void {
  beginUpstreamResponse(observation)
  observation.responseBytes = writeBuffered(response, buffered, observation.requestId)
}

/** The exchange itself did not fail: without `upstreamStatus` the log would not say what the upstream answered. */
export function refuseRejected(
  request: ClientRequest,
  upstreamStatus: number,
  denial: Denial,
  refuse: Refuse,
): void {
  request.observation.upstreamStatus = upstreamStatus
  if (denial.reason === 'upstream_error') request.observation.fault = `status_${upstreamStatus}`
  refuse(request, denial)
}

/** @param failure null where the client caused it */
export function refuseFailed(request: ClientRequest, failure: UpstreamFailure | null, refuse: Refuse): void {
  if (failure !== null) request.observation.fault = failure.kind
  refuse(request, denied(failure === null ? 'upstream_error' : denialReasonOf(failure.kind)))
}

function beginUpstreamResponse(observation: RequestObservation): void {
  observation.source = 'upstream'
  observation.phase = 'streaming'
}

/** Written to Node's response: Fastify's own way adds a stream and its listeners. @param headers of this response alone */
function writeHead(
  { response, observation }: ClientRequest,
  statusCode: number,
  headers: Record<string, string>,
): ServerResponse {
  headers['x-content-type-options'] = 'nosniff'
  headers['x-request-id'] = observation.requestId
  return response.writeHead(statusCode, withoutOwn(headers, response))
}

/** @param body null where it was longer than the bound or broke off */
export function rejectionResponse(
  { statusCode, headers }: { statusCode: number; headers: UpstreamHeaders },
  retryAfter: string | null,
  body: Buffer | null,
): BufferedResponse {
  const fields = retryAfter === null ? REJECTION_HEADERS : { ...REJECTION_HEADERS, 'retry-after': retryAfter }
  const rejection = readRejection(body, headers['content-encoding'])
  return bufferedResponse(statusCode, fieldsOf(fields), bytesOf(JSON.stringify(rejection)))
}

const REJECTION_HEADERS = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}

/**
 * While this much of a body waits for the client to read, no more is read from the upstream: with Node's own 64 KiB a
 * client that reads nothing would hold three times as much.
 */
const MAX_UNSENT_BYTES = 16 * 1024

/** A body on its way to the client. The head waits for the first chunk: until then a failure can still be a denial. */
export class ClientBody implements BodySink {
  readonly #request: ClientRequest
  readonly #upstreamResponse: UpstreamResponse
  readonly #passed: PassedResponse
  readonly #refuse: Refuse
  #hasBegun = false
  #whole: ByteString | null = null

  constructor(
    request: ClientRequest,
    upstreamResponse: UpstreamResponse,
    passed: PassedResponse,
    refuse: Refuse,
  ) {
    this.#request = request
    this.#upstreamResponse = upstreamResponse
    this.#passed = passed
    this.#refuse = refuse
  }

  writeAll(body: Buffer): void {
    this.#request.observation.responseBytes = body.length
    this.#whole = bytesOf(body)
  }

  write(chunk: Buffer): 'continue' | 'pause' {
    this.#request.observation.responseBytes += chunk.length
    const response = this.#begin()
    // Uncorked, Node would write a turn later, and the unsent bytes could not be known now.
    response.socket?.cork()
    response.write(chunk, this.#onWritten)
    response.socket?.uncork()
    return response.writableLength < MAX_UNSENT_BYTES ? 'continue' : 'pause'
  }

  end(): void {
    const response = this.#begin()
    // Text is written together with the head.
    if (this.#whole === null) handOver(response)
    else endTogether(response, this.#whole)
  }

  fail(failure: UpstreamFailure | null): void {
    const { response, observation } = this.#request
    if (!this.#hasBegun) {
      refuseFailed(this.#request, failure, this.#refuse)
      return
    }
    if (failure !== null) {
      observation.fault = failure.kind
      observation.truncated = true
    }
    // Where only the close ends the body (HTTP/1.0), an orderly close would make it look complete.
    const hasLength = this.#passed.headers['content-length'] !== undefined
    if (!hasLength && !response.chunkedEncoding) response.socket?.resetAndDestroy()
    response.destroy()
  }

  readonly #onWritten = (error: Error | null | undefined): void => {
    // After an error the response closes, which ends the exchange.
    if (error == null && this.#request.response.writableLength < MAX_UNSENT_BYTES) {
      this.#upstreamResponse.resume()
    }
  }

  #begin(): ServerResponse {
    if (this.#hasBegun) return this.#request.response
    this.#hasBegun = true
    return writeHead(this.#request, this.#upstreamResponse.statusCode, this.#passed.headers)
  }
}

/** Collects the body of a rejection, up to the bound; a longer one counts as unreadable. */
export class RejectionBody implements BodySink {
  readonly #answer: (body: Buffer | null) => void
  readonly #chunks: Buffer[] = []
  #length = 0

  /** @param answer receives null for a body that was longer than the bound or broke off */
  constructor(answer: (body: Buffer | null) => void) {
    this.#answer = answer
  }

  write(chunk: Buffer): 'continue' | 'discard' {
    this.#length += chunk.length
    this.#chunks.push(chunk)
    if (this.#length <= MAX_REJECTION_BYTES) return 'continue'
    this.#answer(null)
    return 'discard'
  }

  end(): void {
    this.#answer(Buffer.concat(this.#chunks))
  }

  fail(): void {
    this.#answer(null)
  }
}
