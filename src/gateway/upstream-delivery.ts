import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import { type Denial, denied } from '../domain/verdict.ts'
import type { RequestObservation } from '../observability/request-observer.ts'
import type { UpstreamExchange } from './upstream-exchange.ts'
import type { BodySink } from './upstream-exchange-parties.ts'
import { denialReasonOf, type UpstreamFailure } from './upstream-failure.ts'
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
  if (judgement.kind === 'reject') {
    reject(reply, seen, exchange, judgement.retryAfter)
  } else if (judgement.hasBody) {
    const hasLength = judgement.headers['content-length'] !== undefined
    const begin = () => pass(reply, exchange, judgement)
    const refuseInstead = (denial: Denial) => refuse(reply, seen, denial)
    exchange.deliverTo(new ClientBody({ seen, hasLength, begin, refuse: refuseInstead }))
  } else {
    pass(reply, exchange, judgement)
  }
}

/** Written to the raw response: Fastify's streaming would put one more stream and its listeners in between. */
function pass(
  reply: FastifyReply,
  exchange: UpstreamExchange,
  { headers, hasBody }: Extract<Judgement, { kind: 'pass' }>,
): ServerResponse {
  const response = reply.hijack().raw
  // Fastify types each known name as possibly undefined, which none is.
  const own = reply.getHeaders() as OutgoingHttpHeaders
  // What we say ourselves, such as how a limit of ours stands, is not the upstream's to say.
  response.writeHead(exchange.statusCode, { ...headers, ...own })
  if (!hasBody) {
    exchange.discard()
    response.end()
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

interface ClientBodyParts {
  readonly seen: RequestObservation
  readonly hasLength: boolean
  /** Writes the head. */
  readonly begin: () => ServerResponse
  /** Answers in place of it. */
  readonly refuse: (denial: Denial) => void
}

/**
 * The body of an answer on its way to the client. The head waits for the first of it: an upstream that breaks off in
 * between is then answered for, where the client would see nothing but a closed connection.
 */
class ClientBody implements BodySink {
  readonly #parts: ClientBodyParts
  #response: ServerResponse | null = null

  constructor(parts: ClientBodyParts) {
    this.#parts = parts
  }

  write(chunk: Buffer): boolean {
    this.#parts.seen.responseBytes += chunk.length
    return this.#begun().write(chunk)
  }

  end(): void {
    this.#begun().end()
  }

  cut(failure: UpstreamFailure | null): void {
    const { seen, hasLength, refuse } = this.#parts
    if (failure !== null) seen.fault = failure.kind
    if (this.#response === null) {
      refuse(denied(failure === null ? 'upstream_error' : denialReasonOf(failure.kind)))
      return
    }
    if (failure !== null) seen.truncated = true
    // Where only the close ends the body (HTTP/1.0), an orderly close would say that it was whole.
    if (!hasLength && !this.#response.chunkedEncoding) this.#response.socket?.resetAndDestroy()
    this.#response.destroy()
  }

  #begun(): ServerResponse {
    this.#response ??= this.#parts.begin()
    return this.#response
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
