import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { INSTANT_EXPECTED, parseInstant } from '../../../domain/form/instant.ts'
import { isKeyId, KEY_ID_EXPECTED } from '../../../domain/id-form.ts'
import { isWorkspaceId, WORKSPACE_ID_EXPECTED } from '../../../domain/key/key-record.ts'
import {
  allowedWorkspaces,
  type Caller,
  type Principal,
  principalActor,
  principalName,
  sees,
} from '../access/principal.ts'
import type { PageOptions } from '../database/query-parts.ts'
import { ApiError, invalidField } from './api-error.ts'
import type { PageQuery } from './fields.ts'

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

/** Identifies a repeated request by digests, so that nothing the caller sent is stored. */
export interface Idempotency {
  /** SHA-256 of the actor and the Idempotency-Key. */
  readonly id: string
  /** SHA-256 of operation, path parameters and body. */
  readonly request: string
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

/** @param request everything that determines the effect: operation, path parameters, body */
export function identifyRequest(
  actor: string,
  idempotencyKey: string,
  request: readonly [operation: string, parameters: object, body: object],
): Idempotency {
  const [operation, parameters, body] = request
  return {
    id: hash('sha256', JSON.stringify([actor, idempotencyKey])),
    request: hash('sha256', JSON.stringify([operation, sorted(parameters), sorted(body)])),
  }
}

/** Flat objects; the order of their fields does not matter. */
function sorted(object: object): [string, unknown][] {
  return Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1))
}

const DEFAULT_PAGE_SIZE = 50

export function readPage({ limit, cursor }: PageQuery): { limit: number; afterId: string | null } {
  return { limit: Number(limit ?? DEFAULT_PAGE_SIZE), afterId: cursor ?? null }
}

interface Conditions {
  readonly keyId?: string | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
}

/** Which key, and from when to when, the items of a list are about. Instants are in ms since the epoch. */
export function readConditions({ keyId, from, to }: Conditions) {
  if (keyId !== undefined && !isKeyId(keyId)) throw invalidField('keyId', KEY_ID_EXPECTED)
  return { keyId, fromMs: readInstant('from', from), toMs: readInstant('to', to) }
}

function readInstant(field: 'from' | 'to', text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const ms = parseInstant(text)
  if (ms === null) throw invalidField(field, INSTANT_EXPECTED)
  return ms
}

/** A page of a list of one workspace, that of the path. */
export function readPageOptions(request: FastifyRequest, query: PageQuery): PageOptions {
  return { workspaceId: readWorkspaceId(request), ...readPage(query) }
}

/** @throws ApiError if the caller may not see this workspace */
export function readWorkspaceId(request: FastifyRequest): string {
  return checkWorkspace(request, readParameter(request, 'workspaceId'))
}

function checkWorkspace(request: FastifyRequest, workspaceId: string): string {
  if (!isWorkspaceId(workspaceId)) throw invalidField('workspaceId', WORKSPACE_ID_EXPECTED)
  if (!seesWorkspace(request, workspaceId)) throw new ApiError('not_found', 'No such workspace')
  return workspaceId
}

/** Workspaces of a list: the one that the query names, or all that the caller may access. @returns null for all */
export function readWorkspaces(
  request: FastifyRequest,
  workspaceId: string | undefined,
): readonly string[] | null {
  return workspaceId === undefined
    ? allowedWorkspaces(requirePrincipal(request))
    : [checkWorkspace(request, workspaceId)]
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

/** An Idempotency-Key that was used for something else. */
export function otherRequest(): ApiError {
  const text = 'This Idempotency-Key was used for a different request; use a new one'
  return new ApiError('idempotency_mismatch', text)
}

type PathParameter = 'workspaceId' | 'keyId' | 'tokenId' | 'eventId' | 'digest'

/** @returns what the path has in place of `:name`; empty if the route has no such parameter */
export function readParameter(request: FastifyRequest, name: PathParameter): string {
  // The router yields a text for each parameter in the path.
  return (request.params as Record<string, string>)[name] ?? ''
}
