import { isIP } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { plainAddress } from '../../../domain/address/ip-address.ts'
import { isWorkspaceId } from '../../../domain/key/key-record.ts'
import { compileProxies, findClientAddress } from '../../../http/client-address.ts'
import { type Caller, type Principal, principalActor, principalName, sees } from '../access/principal.ts'
import type { PageOptions } from '../database/first-rows.ts'
import { isKeyId } from '../database/ids.ts'
import { ApiError, invalidField } from './api-error.ts'
import { type PageQuery, type WaitQuery, WORKSPACE_ID_EXPECTED } from './fields.ts'
import { type Idempotency, identifyRequest } from './idempotency.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * The peer's address, or the rightmost address of `X-Forwarded-For` that is not itself in `console.trustedProxies`.
     * If that is no IP address, the proxy's own: the audit log never holds text that a client made up.
     */
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

/** Sets the address of each request. Fastify's own `trustProxy` reads no address with a port. */
export function noteCallerAddress(app: FastifyInstance, trustedProxies: readonly string[]): void {
  const trusted = compileProxies(trustedProxies)
  app.decorateRequest('callerAddress', 'unknown')
  app.addHook('onRequest', async request => {
    const { socket, headers } = request.raw
    const peer = plainAddress(socket.remoteAddress ?? '')
    const said = [headers['x-forwarded-for'] ?? []].flat()
    const forwardedFor = said.length === 0 ? undefined : said.join(',')
    const address = findClientAddress(peer, trusted, forwardedFor)
    request.callerAddress = [address, peer].find(text => isIP(text) !== 0) ?? 'unknown'
  })
}

/** In routes that authenticate. */
export function requirePrincipal({ principal }: FastifyRequest): Principal {
  if (principal === null) throw new Error('This route requires authentication')
  return principal
}

/** Whether the caller may access the workspace. An attempt that is rejected is noted for the audit log. */
export function seesWorkspace(request: FastifyRequest, workspaceId: string): boolean {
  if (sees(requirePrincipal(request), workspaceId)) return true
  request.refusedWorkspace = workspaceId
  return false
}

/** For the audit log. */
export function describeCaller(request: FastifyRequest): Caller {
  const principal = requirePrincipal(request)
  const name = principalName(principal)
  const from = { address: request.callerAddress, requestId: request.id }
  return { actor: principalActor(principal), ...(name === undefined ? {} : { name }), ...from }
}

/** Who requests an operation, and how a repeated request is recognised. */
export interface OperationContext {
  readonly caller: Caller
  /** Null without an Idempotency-Key. */
  readonly idempotency: Idempotency | null
}

export function readRequestContext(request: FastifyRequest): OperationContext {
  const caller = describeCaller(request)
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
  return identifyRequest(actor, sent, [operation, request.params as object, (request.body ?? {}) as object])
}

export const WORKSPACE_KEYS = '/workspaces/:workspaceId/keys'
export const WORKSPACE_PLAN = '/workspaces/:workspaceId/plan'
export const KEY = '/keys/:keyId'
const DEFAULT_PAGE_SIZE = 50

export function mustWait({ wait }: WaitQuery): boolean {
  return wait === '1'
}

export function readPage({ limit, cursor }: PageQuery): { limit: number; afterId: string | null } {
  return { limit: Number(limit ?? DEFAULT_PAGE_SIZE), afterId: cursor ?? null }
}

/** A page of a list of one workspace, that of the path. */
export function readPageOptions(request: FastifyRequest, query: PageQuery): PageOptions {
  return { workspaceId: readWorkspaceId(request), ...readPage(query) }
}

/** @throws ApiError if the caller may not see this workspace */
export function readWorkspaceId(request: FastifyRequest): string {
  const workspaceId = readParameter(request, 'workspaceId')
  if (!isWorkspaceId(workspaceId)) throw invalidField('workspaceId', WORKSPACE_ID_EXPECTED)
  if (!seesWorkspace(request, workspaceId)) throw new ApiError('not_found', 'No such workspace')
  return workspaceId
}

interface FindsKeys {
  findById(id: string): Promise<{ readonly record: { readonly workspaceId: string } } | null>
}

/**
 * A key of another workspace is refused like an unknown one, before anything else of the request is checked. A key
 * never changes its workspace, so the result stays true.
 */
export async function readVisibleKeyId(
  { repository }: { readonly repository: FindsKeys },
  request: FastifyRequest,
): Promise<string> {
  const id = readKeyId(request)
  if (sees(requirePrincipal(request), null)) return id
  const key = await repository.findById(id)
  if (key === null || !seesWorkspace(request, key.record.workspaceId)) throw noSuchKey()
  return id
}

/** Rejects what is no key id before it reaches the database. */
export function readKeyId(request: FastifyRequest): string {
  const keyId = readParameter(request, 'keyId')
  if (!isKeyId(keyId)) throw noSuchKey()
  return keyId
}

export function noSuchKey(): ApiError {
  return new ApiError('not_found', 'No such key')
}

export function readParameter(request: FastifyRequest, name: 'workspaceId' | 'keyId'): string {
  // The router yields a text for each parameter in the path.
  return (request.params as Record<string, string>)[name] ?? ''
}

/** Which versions of a key an edit may change; `any` for `*`. */
export type AcceptedVersions = 'any' | readonly number[]

/** One entity tag and what separates it from the next (RFC 9110, sections 8.8.3 and 5.6.1): its text, which may hold commas. */
const TAG = /[ \t]*(?:(?:W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y

/** A version, also with what servers append that compress a response: `"3-gzip"` of Apache, `"3;br"`. */
const VERSION = /^([1-9]\d{0,9})(?:(?:--?|;)(?:gzip|br|zstd|deflate))?$/

/**
 * Reads If-Match (RFC 9110, section 13.1.1). Proxies that compress make a tag weak, `W/"3"`: it counts as the version that
 * the console sent, since a version names one state of the key and not the bytes of a response.
 * @returns null if it is no list of entity tags; tags that are no versions match none
 */
export function parseIfMatch(text: string): AcceptedVersions | null {
  if (text.trim() === '*') return 'any'
  const tags: string[] = []
  TAG.lastIndex = 0
  while (TAG.lastIndex < text.length) {
    const found = TAG.exec(text)
    if (found === null) return null
    if (found[1] !== undefined) tags.push(found[1])
  }
  if (tags.length === 0) return null
  return tags.flatMap(tag => VERSION.exec(tag)?.[1] ?? []).map(Number)
}
