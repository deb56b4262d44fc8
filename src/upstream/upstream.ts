import type { IncomingMessage } from 'node:http'
import type { BlockList } from 'node:net'
import { reloadable } from '../config/reloadable.ts'
import type { Permit } from '../domain/authorize.ts'
import { ASSERTION_HEADER } from '../domain/header-names.ts'
import { buildForwarded, type Forwarded } from '../http/client-address.ts'
import { asError } from '../observability/failure-log.ts'
import type { Assertions } from './assertion/assertions.ts'
import type { ClientRequest } from './client-request.ts'
import { type DispatcherDeps, UpstreamDispatcher } from './pool/dispatcher.ts'
import type { ExchangeHandler, UpstreamRequest } from './pool/exchange-parties.ts'
import { UpstreamFailure } from './pool/failure.ts'
import { compileRequestHeaders } from './request-headers.ts'
import { compileResponsePolicy, type ResponsePolicy } from './response-policy.ts'

export interface UpstreamDeps extends DispatcherDeps {
  /** Names of the client's headers that reach the upstream. */
  readonly requestHeaders: readonly string[]
  /** Names of the upstream's headers that reach the client. */
  readonly responseHeaders: readonly string[]
  /** Proxies whose `X-Forwarded-*` fields are used; null if there are none. */
  readonly trustedProxies: BlockList | null
  /** Null or left out if requests carry no assertion. */
  readonly assertions?: Assertions | null
}

/** Builds requests to the upstream, sends them, and decides what of a response reaches the client. */
export interface Upstream {
  readonly pool: UpstreamDispatcher
  readonly policy: ResponsePolicy
  /** Without the assertion, which `send` adds. */
  requestFor(request: ClientRequest, permit: Permit): UpstreamRequest
  readonly send: Send
  /** @returns values of the `X-Forwarded-*` fields for the upstream */
  forwardedFor(message: IncomingMessage): Forwarded
}

export function createUpstream(deps: UpstreamDeps): Upstream {
  const { trustedProxies } = deps
  const buildHeaders = reloadable(deps.settings, deps.onReload, ({ headers }) =>
    compileRequestHeaders(deps.requestHeaders, headers),
  )
  const basePath = new URL(deps.settings.url).pathname.replace(/(?<!\/)\/+$/, '')
  const forwardedFor = ({ socket, headers }: IncomingMessage) =>
    buildForwarded(socket.remoteAddress ?? '', trustedProxies, headers)

  const pool = new UpstreamDispatcher(deps)
  return {
    pool,
    send: createSend(pool, deps.assertions ?? null),
    policy: compileResponsePolicy(deps.responseHeaders),
    requestFor({ message, observation }, { grant, upstreamTarget }) {
      const { requestId, trace } = observation
      const headers = buildHeaders.value(message.headers, grant, {
        requestId,
        forwarded: forwardedFor(message),
      })
      if (trace !== null) headers['traceparent'] = trace.forwarding()
      return { workspaceId: grant.workspaceId, path: basePath + upstreamTarget, headers }
    },
    forwardedFor,
  }
}

/** An exchange with the upstream, which may not have begun yet. */
export interface Sending {
  abort(): void
}

/** @param waitedMs how long the client has already waited for a coalesced request */
type Send = (permit: Permit, request: UpstreamRequest, handler: ExchangeHandler, waitedMs?: number) => Sending

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
