import type { Permit } from '../domain/authorize.ts'
import type { ClientRequest, Refuse } from './client-request.ts'
import type { UpstreamFailure } from './failure.ts'
import type { BodySink, ExchangeHandler, UpstreamResponse } from './pool/exchange-parties.ts'
import { refuseFailed, respond } from './respond.ts'
import type { ResponsePolicy } from './response-policy.ts'
import type { Upstream } from './upstream.ts'

/**
 * Sends a permitted request to the upstream, and answers it: with the upstream's response, or with a denial.
 * @param waitedMs how long the client has already waited for the response to another request
 */
export type Forward = (request: ClientRequest, permit: Permit, waitedMs?: number) => void

export function createForward({ pool, policy, requestFor }: Upstream, refuse: Refuse): Forward {
  return (request, permit, waitedMs = 0) => {
    const { response, observation } = request
    // The client left while its key was looked up: `close` has been emitted.
    if (response.destroyed) return
    observation.phase = 'waiting'
    const handler = new ResponseHandler(request, policy, refuse)
    const exchange = pool.send(requestFor(request, permit), handler, waitedMs)
    response.on('close', () => exchange.abort())
  }
}

/** Answers one client with what becomes of its exchange. It runs within undici's parser, which must not see it throw. */
class ResponseHandler implements ExchangeHandler {
  readonly #request: ClientRequest
  readonly #policy: ResponsePolicy
  readonly #refuse: Refuse

  constructor(request: ClientRequest, policy: ResponsePolicy, refuse: Refuse) {
    this.#request = request
    this.#policy = policy
    this.#refuse = refuse
  }

  onHead(upstreamResponse: UpstreamResponse): BodySink | null {
    const { statusCode, headers, waitedMs } = upstreamResponse
    const { observation } = this.#request
    observation.upstreamWaitMs = waitedMs
    observation.trace?.forwarded(statusCode, null)
    try {
      return respond(this.#request, upstreamResponse, this.#policy(statusCode, headers), this.#refuse)
    } catch (error) {
      giveUp(this.#request, error)
      return null
    }
  }

  onFailure(failure: UpstreamFailure, waitedMs: number): void {
    const { observation } = this.#request
    observation.upstreamWaitMs = waitedMs
    observation.trace?.forwarded(0, failure.kind)
    try {
      refuseFailed(this.#request, failure, this.#refuse)
    } catch (error) {
      giveUp(this.#request, error)
    }
  }
}

/** A fault of our own in answering: it costs this client its connection, and no other client anything. */
export function giveUp({ response, observation }: ClientRequest, error: unknown): void {
  observation.fault = `The response could not be written: ${String(error)}`
  response.destroy()
}
