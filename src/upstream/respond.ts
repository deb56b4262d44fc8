import type { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import { type Denial, denied } from '../domain/denial.ts'
import { endTogether } from '../http/batched-flush.ts'
import { fieldsOf, type WholeAnswer, wholeAnswer, withoutOwn, writeWhole } from '../http/buffered-response.ts'
import { type ByteString, bytesOf, NO_BYTES } from '../http/byte-string.ts'
import { handOver } from '../http/hand-over.ts'
import type { RequestObservation } from '../observability/request-observer.ts'
import { denialReasonOf, type UpstreamFailure } from './failure.ts'
import type { UpstreamExchange } from './pool/exchange.ts'
import type { BodySink } from './pool/exchange-parties.ts'
import { MAX_REJECTION_BYTES, readRejection } from './rejection.ts'
import type { JudgeAnswer, Judgement, UpstreamHeaders } from './response-policy.ts'

type PassingAnswer = Extract<Judgement, { kind: 'pass' }>

/** The only way to answer a refusal; made where all refusals are. */
export type Refuse = (reply: FastifyReply, seen: RequestObservation, denial: Denial) => void

/** @param judge what of an answer goes on */
export function deliverAnswer(
  reply: FastifyReply,
  seen: RequestObservation,
  exchange: UpstreamExchange,
  judge: JudgeAnswer,
  refuse: Refuse,
): void {
  const judgement = judge(exchange.statusCode, exchange.headers)
  if (judgement.kind === 'denied') {
    exchange.discard()
    refuse(reply, seen, judgement)
    return
  }
  seen.source = 'upstream'
  seen.phase = 'streaming'
  if (judgement.kind === 'reject') {
    reject(reply, seen, exchange, judgement.retryAfter)
  } else if (judgement.hasBody) {
    exchange.deliverTo(new ClientBody({ reply, seen, exchange, judgement, refuse }))
  } else {
    pass(reply, seen, exchange, judgement)
  }
}

/** Written to the raw response: Fastify's streaming would put one more stream and its listeners in between. */
function pass(
  reply: FastifyReply,
  seen: RequestObservation,
  exchange: UpstreamExchange,
  { headers, hasBody }: PassingAnswer,
): ServerResponse {
  const response = reply.hijack().raw
  // The judgement made them for this answer alone.
  headers['x-content-type-options'] = 'nosniff'
  headers['x-request-id'] = seen.requestId
  response.writeHead(exchange.statusCode, withoutOwn(headers, response))
  if (!hasBody) {
    exchange.discard()
    endTogether(response, NO_BYTES)
  }
  return response
}

function reject(
  reply: FastifyReply,
  seen: RequestObservation,
  exchange: UpstreamExchange,
  retryAfter: string | null,
): void {
  const { statusCode, headers } = exchange
  const answer = (body: Buffer | null) => {
    exchange.discard()
    const rejection = rejectionOf(statusCode, headers, retryAfter, body)
    seen.responseBytes = writeWhole(reply.hijack().raw, rejection, seen.requestId)
  }
  exchange.deliverTo(new RejectionCollector(answer))
}

/** @param body null where it was longer than the bound or broke off */
export function rejectionOf(
  status: number,
  upstream: UpstreamHeaders,
  retryAfter: string | null,
  body: Buffer | null,
): WholeAnswer {
  const headers =
    retryAfter === null ? REJECTION_HEADERS : { ...REJECTION_HEADERS, 'retry-after': retryAfter }
  const rejection = readRejection(body, upstream['content-encoding'])
  return wholeAnswer(status, fieldsOf(headers), bytesOf(JSON.stringify(rejection)))
}

const REJECTION_HEADERS = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}

interface ClientBodyParts {
  readonly reply: FastifyReply
  readonly seen: RequestObservation
  readonly exchange: UpstreamExchange
  readonly judgement: PassingAnswer
  /** Answers in place of it. */
  readonly refuse: Refuse
}

/**
 * While so much of a body waits for the client to read, no more is read from the upstream: of Node's own 64 KB a client
 * that reads nothing would hold twice as much again.
 */
const MAX_UNSENT_BYTES = 16 * 1024

/**
 * The body of an answer on its way to the client. The head waits for the first of it: an upstream that breaks off in
 * between is then answered for, where the client would see nothing but a closed connection.
 */
export class ClientBody implements BodySink {
  readonly #parts: ClientBodyParts
  #response: ServerResponse | null = null
  /** A body that came in one piece: its end follows at once, and all goes in one write. */
  #whole: ByteString | null = null

  constructor(parts: ClientBodyParts) {
    this.#parts = parts
  }

  whole(body: Buffer): void {
    this.#parts.seen.responseBytes = body.length
    this.#whole = bytesOf(body)
  }

  write(chunk: Buffer): boolean {
    this.#parts.seen.responseBytes += chunk.length
    const response = this.#begun()
    // Node would write a turn later, and until then nobody could tell a client that reads from one that does not.
    response.socket?.cork()
    response.write(chunk, this.#onWritten)
    response.socket?.uncork()
    return response.writableLength < MAX_UNSENT_BYTES
  }

  end(): void {
    const response = this.#begun()
    // Text is written together with the head.
    if (this.#whole === null) handOver(response)
    else endTogether(response, this.#whole)
  }

  cut(failure: UpstreamFailure | null): void {
    const { reply, seen, judgement, refuse } = this.#parts
    if (failure !== null) seen.fault = failure.kind
    if (this.#response === null) {
      refuse(reply, seen, denied(failure === null ? 'upstream_error' : denialReasonOf(failure.kind)))
      return
    }
    if (failure !== null) seen.truncated = true
    // Where only the close ends the body (HTTP/1.0), an orderly close would say that it was whole.
    const hasLength = judgement.headers['content-length'] !== undefined
    if (!hasLength && !this.#response.chunkedEncoding) this.#response.socket?.resetAndDestroy()
    this.#response.destroy()
  }

  readonly #onWritten = (error: Error | null | undefined): void => {
    // An error is followed by the close of the response, which ends the exchange.
    const unsent = error == null ? this.#response?.writableLength : undefined
    if (unsent !== undefined && unsent < MAX_UNSENT_BYTES) this.#parts.exchange.drained()
  }

  #begun(): ServerResponse {
    if (this.#response === null) {
      const { reply, seen, exchange, judgement } = this.#parts
      this.#response = pass(reply, seen, exchange, judgement)
    }
    return this.#response
  }
}

/** The body of a rejection, up to the bound; what is longer counts as unreadable. */
export class RejectionCollector implements BodySink {
  readonly #answer: (body: Buffer | null) => void
  readonly #chunks: Buffer[] = []
  #length = 0

  constructor(answer: (body: Buffer | null) => void) {
    this.#answer = answer
  }

  write(chunk: Buffer): boolean {
    this.#length += chunk.length
    this.#chunks.push(chunk)
    if (this.#length > MAX_REJECTION_BYTES) this.#answer(null)
    return true
  }

  end(): void {
    this.#answer(Buffer.concat(this.#chunks))
  }

  cut(): void {
    this.#answer(null)
  }
}
