import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import type { Denial } from '../domain/verdict.ts'
import type { RequestObservation } from '../observability/request-observer.ts'
import type { UpstreamExchange } from './upstream-exchange.ts'
import type { BodySink } from './upstream-exchange-parties.ts'
import type { UpstreamFailure } from './upstream-failure.ts'
import { MAX_REJECTION_BYTES, readRejection } from './upstream-rejection.ts'
import type { JudgeAnswer, Judgement } from './upstream-response.ts'

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
  if (judgement.kind === 'pass') pass(reply, seen, exchange, judgement)
  else reject(reply, seen, exchange, judgement.retryAfter)
}

/** Written to the raw response: Fastify's streaming would put one more stream and its listeners in between. */
function pass(
  reply: FastifyReply,
  seen: RequestObservation,
  exchange: UpstreamExchange,
  judgement: Extract<Judgement, { kind: 'pass' }>,
): void {
  const response = reply.hijack().raw
  if (judgement.hasBody) {
    exchange.deliverTo(new ClientBody(response, seen, judgement.headers['content-length'] !== undefined))
  }
  // Fastify types each known name as possibly undefined, which none is.
  const own = reply.getHeaders() as OutgoingHttpHeaders
  response.writeHead(exchange.statusCode, { ...own, ...judgement.headers })
  if (!judgement.hasBody) {
    exchange.discard()
    response.end()
  }
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
    const rejection = JSON.stringify(readRejection(body, headers['content-encoding']))
    seen.responseBytes = Buffer.byteLength(rejection)
    sendRejection(reply, statusCode, rejection, retryAfter)
  }
  exchange.deliverTo(new RejectionCollector(answer))
}

function sendRejection(
  reply: FastifyReply,
  statusCode: number,
  body: string,
  retryAfter: string | null,
): void {
  if (retryAfter !== null) reply.header('retry-after', retryAfter)
  reply.code(statusCode).header('cache-control', 'no-store').type('application/json; charset=utf-8')
  reply.send(body)
}

/** The body of an answer on its way to the client. */
class ClientBody implements BodySink {
  readonly #response: ServerResponse
  readonly #seen: RequestObservation
  readonly #hasLength: boolean

  constructor(response: ServerResponse, seen: RequestObservation, hasLength: boolean) {
    this.#response = response
    this.#seen = seen
    this.#hasLength = hasLength
  }

  write(chunk: Buffer): boolean {
    this.#seen.responseBytes += chunk.length
    return this.#response.write(chunk)
  }

  end(): void {
    this.#response.end()
  }

  cut(failure: UpstreamFailure | null): void {
    const response = this.#response
    if (failure !== null) {
      this.#seen.truncated = true
      this.#seen.fault = failure.kind
    }
    // Where only the close ends the body (HTTP/1.0), an orderly close would say that it was whole.
    if (!this.#hasLength && !response.chunkedEncoding) response.socket?.resetAndDestroy()
    response.destroy()
  }
}

/** The body of a rejection, up to the bound; what is longer counts as unreadable. */
class RejectionCollector implements BodySink {
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
