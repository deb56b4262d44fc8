import { isIP } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { plainAddress } from '../../../domain/address/plain-address.ts'
import { clientAddressOf } from '../../../http/client-address.ts'
import { compileProxies } from '../../../http/trusted-proxies.ts'
import { actorOf, type Principal, principalNameOf, sees } from '../access/principal.ts'
import type { Caller } from '../audit/entries.ts'
import { invalidField } from './api-error.ts'
import { type Idempotency, idempotencyOf } from './idempotency.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** See `callerAddressOf`. */
    callerAddress: string
    /** Null until the caller is authenticated. */
    principal: Principal | null
    /** Whether the caller would be admitted now, too; for responses that take long. Null until it is authenticated. */
    isStillAdmitted: (() => Promise<boolean>) | null
    /** A workspace that the caller asked for and may not access, for the audit log. */
    refusedWorkspace: string | null
  }
}

const VISIBLE_ASCII = /^[\x21-\x7e]{1,255}$/

/**
 * The peer's address, or the rightmost address of `X-Forwarded-For` that is not itself in `console.trustedProxies`.
 * If that is no IP address, the proxy's own: the audit log never holds text that a client made up.
 */
export function callerAddressOf({ callerAddress }: Pick<FastifyRequest, 'callerAddress'>): string {
  return callerAddress
}

/** Sets the address of each request. Fastify's own `trustProxy` reads no address with a port. */
export function noteCallerAddress(app: FastifyInstance, trustedProxies: readonly string[]): void {
  const trusted = compileProxies(trustedProxies)
  app.decorateRequest('callerAddress', 'unknown')
  app.addHook('onRequest', async request => {
    const { socket, headers } = request.raw
    const peer = plainAddress(socket.remoteAddress ?? '')
    const said = [headers['x-forwarded-for'] ?? []].flat()
    const forwardedFor = said.length === 0 ? undefined : said.join(',')
    const address = clientAddressOf(peer, trusted, forwardedFor)
    request.callerAddress = [address, peer].find(text => isIP(text) !== 0) ?? 'unknown'
  })
}

/** In routes that authenticate. */
export function principalOf({ principal }: FastifyRequest): Principal {
  if (principal === null) throw new Error('This route requires authentication')
  return principal
}

/** Whether the caller may access the workspace. An attempt that is rejected is noted for the audit log. */
export function seesWorkspace(request: FastifyRequest, workspaceId: string): boolean {
  if (sees(principalOf(request), workspaceId)) return true
  request.refusedWorkspace = workspaceId
  return false
}

/** For the audit log. */
export function callerOf(request: FastifyRequest): Caller {
  const principal = principalOf(request)
  const name = principalNameOf(principal)
  const from = { address: callerAddressOf(request), requestId: request.id }
  return { actor: actorOf(principal), ...(name === undefined ? {} : { name }), ...from }
}

/** Who requests an operation, and how a repeated request is recognised. */
export interface OperationContext {
  readonly caller: Caller
  /** Null without an Idempotency-Key. */
  readonly idempotency: Idempotency | null
}

export function readRequestContext(request: FastifyRequest): OperationContext {
  const caller = callerOf(request)
  return { caller, idempotency: readIdempotency(request, caller.actor) }
}

/** @returns null without an Idempotency-Key */
function readIdempotency(request: FastifyRequest, actor: string): Idempotency | null {
  const sent = request.headers['idempotency-key']
  if (sent === undefined) return null
  // Node joins two headers of this name with a comma and a space, which the pattern rejects.
  if (typeof sent !== 'string' || !VISIBLE_ASCII.test(sent)) {
    throw invalidField('Idempotency-Key', '1 to 255 visible ASCII characters, once')
  }
  const operation = request.routeOptions.config.operation ?? 'other'
  // Path parameters, and a body that passed its schema, are objects; a missing body equals an empty one.
  return idempotencyOf(actor, sent, [operation, request.params as object, (request.body ?? {}) as object])
}
