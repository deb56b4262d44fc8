import type { Permit } from '../domain/authorize.ts'
import { abortConnection, awaitUpstream } from '../http/guard-connections.ts'
import type { ClientRequest, Deny } from './client-request.ts'
import type { BodySink, ExchangeHandler, UpstreamResponse } from './pool/exchange-parties.ts'
import type { UpstreamFailure } from './pool/failure.ts'
import { denyAfterFailure, respond } from './respond.ts'
import type { ResponsePolicy } from './response-policy.ts'
import type { Upstream } from './upstream.ts'

/**
 * Forwards a permitted request and responds with the upstream's response or with a denial.
 * @param waitedMs how long the client has already waited for a coalesced request
 */
export type Forward = (request: ClientRequest, permit: Permit, waitedMs?: number) => void

export function createForward({ send, policy, requestFor }: Upstream, deny: Deny): Forward {
  return (request, permit, waitedMs = 0) => {
    const { response, observation } = request
    // The client disconnected during the lookup: `close` has been emitted.
    if (response.destroyed) return
    observation.phase = 'waiting'
    if (!awaitUpstream(request)) return
    const handler = new ResponseHandler(request, policy, deny)
    const exchange = send(permit, requestFor(request, permit), handler, waitedMs)
    response.on('close', () => exchange.abort())
  }
}

/** Responds to one client with the outcome of its exchange. It runs in undici's parser and must not throw there. */
class ResponseHandler implements ExchangeHandler {
  readonly #request: ClientRequest
  readonly #policy: ResponsePolicy
  readonly #deny: Deny

  constructor(request: ClientRequest, policy: ResponsePolicy, deny: Deny) {
    this.#request = request
    this.#policy = policy
    this.#deny = deny
  }

  onHead(upstreamResponse: UpstreamResponse): BodySink | null {
    const { statusCode, headers, waitedMs } = upstreamResponse
    const { observation } = this.#request
    observation.upstreamWaitMs = waitedMs
    observation.trace?.forwarded(statusCode, null)
    try {
      return respond(this.#request, upstreamResponse, this.#policy(statusCode, headers), this.#deny)
    } catch (error) {
      abortResponse(this.#request, error)
      return null
    }
  }

  onFailure(failure: UpstreamFailure, waitedMs: number): void {
    const { observation } = this.#request
    observation.upstreamWaitMs = waitedMs
    observation.trace?.forwarded(0, failure.kind)
    try {
      denyAfterFailure(this.#request, failure, this.#deny)
    } catch (error) {
      abortResponse(this.#request, error)
    }
  }
}

/** Closes the client's connection after an error of our own, so that no other client is affected. */
export function abortResponse({ response, observation }: ClientRequest, error: unknown): void {
  observation.fault = `The response could not be written: ${String(error)}`
  abortConnection(response)
}
