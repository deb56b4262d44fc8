import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import { type IdKind, isId } from '../../../domain/id-form.ts'
import { isWorkspaceId } from '../../../domain/key/key-record.ts'
import { may, type Person } from '../access/principal.ts'
import type { RandomBytes } from '../database/ids.ts'
import { ApiError } from '../http/api-error.ts'
import {
  describeCaller,
  identifyRequest,
  type OperationContext,
  readParameter,
  requirePrincipal,
  seesWorkspace,
} from '../http/request-context.ts'
import { type FormFields, textField } from './form-parts.ts'
import type { Html } from './html.ts'
import type { Frame } from './layout.ts'
import { EXPIRED, formPage, returnPath, signInPath } from './paths.ts'

/** Also for pages of workspaces that the person may not see. */
export function notFound(): ApiError {
  return new ApiError('not_found', 'Page not found')
}

/** @throws if the person may not see this workspace */
export function requireWorkspace(request: FastifyRequest): string {
  const workspaceId = readParameter(request, 'workspaceId')
  if (!isWorkspaceId(workspaceId) || !seesWorkspace(request, workspaceId)) throw notFound()
  return workspaceId
}

/** An onRequest hook for pages that change keys of the workspace of the path. */
const requireManager: onRequestAsyncHookHandler = async request => {
  const workspaceId = requireWorkspace(request)
  if (!may(requirePrincipal(request), 'keys:write', workspaceId)) {
    throw new ApiError('forbidden', 'You have the role of a viewer, who sees keys and changes none')
  }
}

/**
 * The workspace that a page without one of its own belongs to: that of its address, that of the page before it, or the only one
 * of the person. Null if there is none that the person may see.
 */
export function findWorkspace(request: FastifyRequest): string | null {
  const { workspaces, administrator } = signedInPerson(request)
  const named = [request.url, pathAndQuery(request.headers.referer) ?? ''].map(workspaceIn)
  const only = administrator || workspaces.length > 1 ? null : (workspaces[0] ?? null)
  return named.find(workspaceId => workspaceId !== null && seesWorkspace(request, workspaceId)) ?? only
}

/** @param address path and query */
function workspaceIn(address: string): string | null {
  const url = URL.parse(address, 'http://here.invalid')
  const [, first, second = ''] = url?.pathname.split('/') ?? []
  const named = first === 'workspaces' ? second : (url?.searchParams.get('workspace') ?? '')
  return isWorkspaceId(named) ? named : null
}

export function createFrame(
  reply: FastifyReply,
  { workspaceId, clock }: { readonly workspaceId: string | null; readonly clock: Clock },
): Frame {
  const { request } = reply
  const person = signedInPerson(request)
  const { name, workspaces, workspacesGranted: granted, administrator } = person
  return {
    personName: name,
    workspaceId,
    workspaceNames: person.workspaceNames ?? {},
    mayChoose: administrator || workspaces.length > 1,
    mayChange: workspaceId !== null && may(requirePrincipal(request), 'keys:write', workspaceId),
    isAdministrator: administrator,
    leftOut: granted === undefined || administrator ? null : { granted, used: workspaces.length },
    unusedClaims: person.unusedClaims ?? [],
    sessionExpired: readQuery(request)[EXPIRED] !== undefined,
    csrfToken: generateCsrfToken(reply),
    nowMs: clock.wallMs(),
  }
}

export function sendPage(reply: FastifyReply, page: Html, status = 200): FastifyReply {
  return reply.code(status).type('text/html; charset=utf-8').send(page.toString())
}

/** The parsers of forms and of queries yield this type. */
export function readFormFields(request: FastifyRequest): FormFields {
  return (request.body ?? {}) as FormFields
}

/** The id after which a page of a list starts. An invalid cursor shows the first page. */
export function readCursor(request: FastifyRequest, kind: IdKind): string | null {
  const cursor = textField(readQuery(request), 'cursor')
  return isId(kind, cursor) ? cursor : null
}

export function readQuery(request: FastifyRequest): FormFields {
  return request.query as FormFields
}

/**
 * An onRequest hook. After signing in, a person whose session has expired comes back to the page of the form. Its fields are not kept:
 * they would get into URLs and the history of the browser, and may hold a key or an address with a secret.
 */
const requirePersonOfForm: onRequestAsyncHookHandler = async (request, reply) => {
  if (request.person !== null) return
  await reply.redirect(signInPath(returnPath(formPage(request.url))), 303)
}

const config = { operation: 'page' } as const

async function requireAdministrator(request: FastifyRequest): Promise<void> {
  if (!signedInPerson(request).administrator) {
    throw new ApiError('forbidden', 'This page is only for administrators')
  }
}

/** Options of routes that show something. */
export const SHOWS = { onRequest: [requirePerson], config }
/** Options of routes that ask before they change keys of the workspace of the path. */
export const CHANGE_FORMS = { onRequest: [requirePerson, requireManager], config }
/** Options of routes that change keys of the workspace of the path. */
export const CHANGES = { onRequest: [requirePersonOfForm, requireManager], config }
/** Options of routes that show something to administrators. */
export const ADMINISTRATION = { onRequest: [requirePerson, requireAdministrator], config }
/** Options of routes on which administrators change something. */
export const ADMINISTRATION_CHANGES = { onRequest: [requirePersonOfForm, requireAdministrator], config }

declare module 'fastify' {
  interface FastifyRequest {
    /** The signed-in person, in scopes of `authenticatePeople`; null for programs and without a session. */
    person: Person | null
    /** @fastify/csrf-protection reads the secret of its tokens here. */
    session: { _csrf: string } | null
  }
}

export const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** @returns the token for the field `_csrf` or the header `X-CSRF-Token`; empty without a session */
function generateCsrfToken(reply: FastifyReply): string {
  return reply.request.session === null ? '' : reply.generateCsrf()
}

/**
 * An onRequest hook. Redirects to signing in and afterwards back to the page, or to the page of the form that was sent.
 */
export async function requirePerson(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (request.person !== null) return
  if (request.url.startsWith('/admin/')) {
    throw new ApiError('unauthenticated', 'A valid bearer token or session is required')
  }
  const then = SAFE_METHODS.has(request.method) ? request.url : pathAndQuery(request.headers.referer)
  await reply.redirect(signInPath(returnPath(then)), 303)
}

/** Uses only the path of the address, so that its host does not matter. */
function pathAndQuery(address: string | undefined): string | null {
  const url = URL.parse(address ?? '')
  return url === null ? null : url.pathname + url.search
}

/** The person, in routes behind `requirePerson`. */
export function signedInPerson({ person }: FastifyRequest): Person {
  if (person === null) throw new Error('This route requires the hook requirePerson')
  return person
}

const ONCE = /^[A-Za-z0-9_-]{22}$/

/** Makes a form that is submitted twice, as by reloading, one request. */
export function newOnceToken(randomBytes: RandomBytes): string {
  return Buffer.from(randomBytes(16)).toString('base64url')
}

/**
 * @param what everything that determines the effect: operation, path parameters, form
 * @returns null without the token: submitting such a form twice would act twice
 */
export function readFormContext(
  request: FastifyRequest,
  what: readonly [operation: 'issue' | 'rotate' | 'token', parameters: object, form: object],
): OperationContext | null {
  const once = textField(readFormFields(request), 'once')
  if (!ONCE.test(once)) return null
  const caller = describeCaller(request)
  return { caller, idempotency: identifyRequest(caller.actor, `form:${once}`, what) }
}

/** Shown when a form without problems is shown again. */
export const FORM_NOTICES = {
  reused:
    'This form was already submitted with other values. Nothing was changed. Submit it again to issue another key.',
  incomplete: 'The form was incomplete. Nothing was changed. Submit it again.',
} as const
