import type { Permit } from '../domain/authorize.ts'
import { asError } from '../observability/failure-log.ts'
import type { Assertions } from './assertion/assertions.ts'
import type { UpstreamDispatcher } from './pool/dispatcher.ts'
import type { ExchangeHandler, UpstreamRequest } from './pool/exchange-parties.ts'
import { UpstreamFailure } from './pool/failure.ts'
import { ASSERTION_HEADER } from './request-headers.ts'

/** An exchange with the upstream, which may not have begun yet. */
export interface Sending {
  abort(): void
}

/** @param waitedMs how long the client has already waited for a coalesced request */
export type Send = (
  permit: Permit,
  request: UpstreamRequest,
  handler: ExchangeHandler,
  waitedMs?: number,
) => Sending

/** @param assertions null if requests carry none */
export function createSend(
  pool: Pick<UpstreamDispatcher, 'send' | 'nowMs'>,
  assertions: Assertions | null,
): Send {
  if (assertions === null)
    return (_permit, request, handler, waitedMs) => pool.send(request, handler, waitedMs)
  return (permit, request, handler, waitedMs = 0) => {
    const assertion = assertions.assertionFor(permit.grant, request.path)
    if (typeof assertion !== 'string') {
      return new SendWhenSigned(assertion, { pool, request, handler, waitedMs })
    }
    request.headers[ASSERTION_HEADER] = assertion
    return pool.send(request, handler, waitedMs)
  }
}

interface Unsent {
  readonly pool: Pick<UpstreamDispatcher, 'send' | 'nowMs'>
  readonly request: UpstreamRequest
  readonly handler: ExchangeHandler
  readonly waitedMs: number
}

/** A request without its assertion is never sent. */
class SendWhenSigned implements Sending {
  #isAborted = false
  #exchange: Sending | null = null

  constructor(assertion: Promise<string>, unsent: Unsent) {
    const { pool, request, handler, waitedMs } = unsent
    const beganMs = pool.nowMs()
    const elapsedMs = () => waitedMs + pool.nowMs() - beganMs
    assertion
      .then(signed => {
        if (this.#isAborted) return
        request.headers[ASSERTION_HEADER] = signed
        this.#exchange = pool.send(request, handler, elapsedMs())
      })
      .catch((error: unknown) => {
        if (this.#isAborted) return
        handler.onFailure(new UpstreamFailure('assertion', asError(error)), elapsedMs())
      })
  }

  abort(): void {
    this.#isAborted = true
    this.#exchange?.abort()
  }
}
