import type { ServerResponse } from 'node:http'
import replyFrom, { type FastifyReplyFromHooks } from '@fastify/reply-from'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Dispatcher } from 'undici'
import { neverReloads, type OnReload, reloadable } from '../config/reloadable.ts'
import type { Permit } from '../domain/authorize.ts'
import type { Clock } from '../domain/clock.ts'
import { type DenialReason, denied } from '../domain/denial.ts'
import type { Metrics } from '../observability/metrics.ts'
import type { RequestObservation } from '../observability/request-observer.ts'
import { denialReasonOf, UpstreamFailure } from './failure.ts'
import { forwardedRequestOf, leanReply } from './lean-reply.ts'
import type { UpstreamSettings } from './pool/connection.ts'
import { type DispatcherDeps, EXCHANGE, UpstreamDispatcher } from './pool/dispatcher.ts'
import type { UpstreamExchange } from './pool/exchange.ts'
import type { Resolve } from './pool/resolver.ts'
import { compileRequestHeaders, type OwnRequestHeaders } from './request-headers.ts'
import { deliverAnswer, type Refuse } from './respond.ts'
import { SharedAnswers } from './response-cache/coalesce.ts'
import { AnswerCache } from './response-cache/response-cache.ts'
import type { Asker } from './response-cache/waiter.ts'
import { compileJudge, type JudgeAnswer } from './response-policy.ts'

export interface ForwardingDeps {
  readonly settings: UpstreamSettings
  /** How changed ones are heard of; fixed headers and TLS can change. */
  readonly onReload?: OnReload<UpstreamSettings>
  /** Names of the headers that pass, each way. */
  readonly requestHeaders: readonly string[]
  readonly responseHeaders: readonly string[]
  readonly metrics: Metrics
  readonly clock: Clock
  readonly logger: DispatcherDeps['logger']
  readonly refuse: Refuse
  readonly resolve?: Resolve
  readonly clientStallMs?: number
}

/** What the gateway knows of a request beside the permit. */
export interface ForwardContext extends OwnRequestHeaders {
  /** Written here, read when the request ends. */
  readonly seen: RequestObservation
}

/** Forwards what was permitted, and answers: with the upstream's answer, or with a refusal. */
export type Forward = (reply: FastifyReply, permit: Permit, context: ForwardContext) => void

/** One request that was permitted. */
interface Asking {
  readonly reply: FastifyReply
  readonly permit: Permit
  readonly context: ForwardContext
}

/** The one link from a request to its exchange, cut when either ends. */
interface Forwarding {
  readonly exchange: UpstreamExchange
  readonly context: ForwardContext
  readonly reply: FastifyReply
}

declare module 'node:http' {
  interface IncomingMessage {
    [EXCHANGE]?: Forwarding | undefined
  }
}
/** The only user of @fastify/reply-from. Everything in it that decides anything is replaced by ours. */
export function registerForwarding(app: FastifyInstance, deps: ForwardingDeps): Forward {
  const dispatcher = new UpstreamDispatcher(deps)
  const buildHeaders = reloadable(deps.settings, deps.onReload ?? neverReloads, ({ headers }) =>
    compileRequestHeaders(deps.requestHeaders, headers),
  )
  const { origin, pathname } = new URL(deps.settings.url)
  const basePath = pathname.replace(/(?<!\/)\/+$/, '')
  const judge = compileJudge(deps.responseHeaders)
  const hooks = forwardingHooks(deps, judge)
  app.register(replyFrom, {
    base: origin,
    // Its types ask for undici's whole request; its code calls with a callback only.
    undici: dispatcher as unknown as { request: Dispatcher['request'] },
    destroyAgent: true,
    disableRequestLogging: true,
  })

  const targetOf = (permit: Permit) => basePath + permit.upstreamTarget
  const headersFor = ({ reply, permit, context }: Asking) => {
    const headers = buildHeaders.value(reply.request.raw.headers, permit.grant, context)
    if (context.seen.trace !== null) headers['traceparent'] = context.seen.trace.forwarding()
    return headers
  }
  const ask = (asking: Asking, waitedMs = 0) => {
    const { reply, permit, context } = asking
    const request = reply.request.raw
    const exchange = dispatcher.open({
      workspaceId: permit.grant.workspaceId,
      path: targetOf(permit),
      headers: headersFor(asking),
      waitedBeforeMs: waitedMs,
    })
    request[EXCHANGE] = { exchange, context, reply }
    reply.raw.on('close', onClientClose)
    reply.from.call(leanReply(request), '/', hooks)
  }
  const askAlone = (asker: Asker) => ask(asker, dispatcher.nowMs() - asker.sinceMs)
  const cache = createCache(deps)
  const shared = new SharedAnswers({ ...deps, cache, dispatcher, judge, headersFor, targetOf, askAlone })

  return (reply, permit, context) => {
    // Whoever left while the key was looked up has no `close` to come.
    if (reply.raw.destroyed) return
    context.seen.phase = 'waiting'
    if (permit.route.sharesAnswers) shared.ask(reply, permit, context)
    else ask({ reply, permit, context })
  }
}

/** @returns null where none is wanted */
function createCache({ settings, onReload, metrics }: ForwardingDeps): AnswerCache | null {
  const { maxBytes } = settings.cache
  if (maxBytes === 0) return null
  const cache = new AnswerCache(maxBytes, metrics)
  // What the upstream answered to other fixed headers is forgotten.
  onReload?.(() => () => cache.clear())
  return cache
}

/** One set of hooks for all requests: a closure per request is garbage per request. */
function forwardingHooks({ refuse }: ForwardingDeps, judge: JudgeAnswer): FastifyReplyFromHooks {
  const deliver = ({ reply, context: { seen }, exchange }: Forwarding) => {
    seen.trace?.forwarded(exchange.statusCode, null)
    deliverAnswer(reply, seen, exchange, judge, refuse)
  }
  const fail = ({ reply, context: { seen } }: Forwarding, cause: unknown) => {
    seen.fault = cause instanceof UpstreamFailure ? cause.kind : String(cause)
    seen.trace?.forwarded(0, seen.fault)
    refuse(reply, seen, denied(reasonOf(cause)))
  }
  return {
    queryString: () => '',
    // Its own default sends a GET that met a 503 eleven times in all.
    retryDelay: () => null,
    rewriteRequestHeaders: request => ({ [EXCHANGE]: forwardingOf(request)?.exchange }),
    onResponse: request => answering(forwardingOf(request), deliver),
    onError: ({ request }, { error: { cause } }) =>
      answering(forwardingOf(request), forwarding => fail(forwarding, cause)),
  }
}

/** Cut when the client has left: nobody is to be answered then. */
function forwardingOf(request: object): Forwarding | undefined {
  return forwardedRequestOf(request)[EXCHANGE]
}

/** Runs within undici's parser, where whatever is thrown on ends the process, or leaves the client waiting. */
function answering(forwarding: Forwarding | undefined, answer: (forwarding: Forwarding) => void): void {
  if (forwarding === undefined) return
  const { exchange, context, reply } = forwarding
  context.seen.upstreamWaitMs = exchange.headersAfterMs
  try {
    answer(forwarding)
  } catch (error) {
    context.seen.fault = `An answer of the upstream could not be passed on: ${String(error)}`
    reply.raw.destroy()
  }
}

function reasonOf(failure: unknown): DenialReason {
  return failure instanceof UpstreamFailure ? denialReasonOf(failure.kind) : 'internal_error'
}

/** After the answer, or before it where the client left: then the upstream need not go on either. */
function onClientClose(this: ServerResponse): void {
  this.req[EXCHANGE]?.exchange.abort()
  this.req[EXCHANGE] = undefined
}
