import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import { isWorkspaceId } from '../../../domain/key/key-record.ts'
import { may } from '../access/principal.ts'
import { ApiError } from '../http/api-error.ts'
import { principalOf, seesWorkspace } from '../http/request-context.ts'
import { type FormFields, textField } from './form-fields.ts'
import type { Html } from './html.ts'
import type { Frame } from './layout.ts'
import { EXPIRED, formPage, returnPath, signInPath } from './local-path.ts'
import { csrfTokenOf, personOfRequest } from './signed-in.ts'

/** Also for pages of workspaces that the person may not see. */
export function notFound(): ApiError {
  return new ApiError('not_found', 'Page not found')
}

/** @throws if the person may not see this workspace */
export function workspaceOf(request: FastifyRequest): string {
  const workspaceId = parameterOf(request, 'workspaceId')
  if (!isWorkspaceId(workspaceId) || !seesWorkspace(request, workspaceId)) throw notFound()
  return workspaceId
}

/** An onRequest hook for pages that change keys of the workspace of the path. */
export const requireManager: onRequestAsyncHookHandler = async request => {
  const workspaceId = workspaceOf(request)
  if (!may(principalOf(request), 'keys:write', workspaceId)) {
    throw new ApiError('forbidden', 'You have the role of a viewer, who sees keys and changes none')
  }
}

export function frameOf(
  request: FastifyRequest,
  reply: FastifyReply,
  { workspaceId, clock }: { readonly workspaceId: string | null; readonly clock: Clock },
): Frame {
  const person = personOfRequest(request)
  const { name, workspaces, workspacesGranted: granted, administrator } = person
  return {
    personName: name,
    workspaceId,
    mayChoose: administrator || workspaces.length > 1,
    mayChange: workspaceId !== null && may(principalOf(request), 'keys:write', workspaceId),
    isAdministrator: administrator,
    leftOut: granted === undefined || administrator ? null : { granted, used: workspaces.length },
    unusedClaims: person.unusedClaims ?? [],
    sessionExpired: queryOf(request)[EXPIRED] !== undefined,
    csrfToken: csrfTokenOf(request, reply),
    nowMs: clock.wallMs(),
  }
}

export function sendPage(reply: FastifyReply, page: Html, status = 200): FastifyReply {
  return reply.code(status).type('text/html; charset=utf-8').send(page.toString())
}

/** The parsers of forms and of queries yield this type. */
export function fieldsOf(request: FastifyRequest): FormFields {
  return (request.body ?? {}) as FormFields
}

const CURSOR = /^(?:audit|msg)_[0-9A-HJKMNP-TV-Z]{26}$/

/** An invalid cursor shows the first page. */
export function cursorOf(request: FastifyRequest): string | null {
  const cursor = textField(queryOf(request), 'cursor')
  return CURSOR.test(cursor) ? cursor : null
}

export function queryOf(request: FastifyRequest): FormFields {
  return request.query as FormFields
}

/**
 * An onRequest hook. After signing in, a person whose session has expired comes back to the page of the form. Its fields are not kept:
 * they would get into URLs and the history of the browser, and may hold a key or an address with a secret.
 */
export const requirePersonOfForm: onRequestAsyncHookHandler = async (request, reply) => {
  if (request.person !== null) return
  await reply.redirect(signInPath(returnPath(formPage(request.url))), 303)
}

export function parameterOf(request: FastifyRequest, name: 'workspaceId' | 'keyId'): string {
  // The router yields a text for each parameter in the path.
  return (request.params as Record<string, string>)[name] ?? ''
}
