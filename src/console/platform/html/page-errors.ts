import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import { OutcomeUnknown } from '../database/database-unavailable.ts'
import { ApiError } from '../http/api-error.ts'
import { NO_RESOURCE } from '../http/calls.ts'
import { describeFailure, explainError } from '../http/explain-error.ts'
import { copyable, type Html, html } from './html.ts'
import { barePage, type Frame, page } from './layout.ts'
import { createFrame, findWorkspace, notFound, sendPage } from './page-request.ts'
import { FIND_KEY, formPage, keyPath, WORKSPACES } from './paths.ts'

/** Browsers get a page for an unknown path, programs JSON; before a body is read. */
export function usePageNotFound(scope: FastifyInstance): void {
  const respond = async (request: FastifyRequest, reply: FastifyReply) => {
    if (request.headers.accept?.includes('text/html') === true) throw notFound()
    const { status, body } = new ApiError('unknown_path', NO_RESOURCE)
    return reply.code(status).send(body)
  }
  scope.setNotFoundHandler(respond)
  scope.addHook('preParsing', async (request, reply) => {
    if (request.is404) await respond(request, reply)
  })
}

/** Shows every failure of a page as a page. */
export function usePageErrors(
  scope: FastifyInstance,
  { clock, logger }: { clock: Clock; logger: ControlLogger },
): void {
  scope.setErrorHandler((error: FastifyError | ApiError, request, reply) => {
    // The form belongs to an earlier session: show its page again.
    if ('code' in error && error.code.startsWith('FST_CSRF_')) {
      return reply.redirect(findFormPath(request), 303)
    }
    const apiError = explainError(error)
    if (apiError.status >= 500)
      logger.error({ ...describeFailure(error), requestId: request.id }, 'page request failed')
    const frame =
      request.person === null ? null : createFrame(reply, { workspaceId: findWorkspace(request), clock })
    return sendPage(
      reply.headers(apiError.headers),
      problemPage(frame, unconfirmedProblem(error, request) ?? describeProblem(apiError, request)),
      apiError.status,
    )
  })
}

/** Other forms, such as that of signing out, are on several pages. */
function findFormPath({ url }: FastifyRequest): string {
  if (url.split('?', 1)[0] === FIND_KEY) return url
  return url.startsWith(`${WORKSPACES}/`) ? formPage(url) : '/'
}

/** Null unless the error leaves open whether a key was issued or changed. */
function unconfirmedProblem(error: Error, { id }: FastifyRequest): Problem | null {
  if (!(error instanceof OutcomeUnknown)) return null
  const { keyId, workspaceId } = error.about
  if (keyId === undefined || workspaceId === undefined) return null
  return {
    title: 'Outcome unknown',
    text: `The database did not say whether the change was made. Look at the key ${keyId} before you try again: if it is there and you have just issued it, its secret is lost, and you can revoke it.`,
    requestId: id,
    next: { path: keyPath(workspaceId, keyId), text: 'Show the key' },
  }
}

function describeProblem(apiError: ApiError, { id }: FastifyRequest): Problem {
  if (apiError.status === 404) {
    const text = 'The URL may be incomplete, or belong to a workspace that you cannot access.'
    return { title: 'Page not found', text, requestId: null }
  }
  if (apiError.code === 'database_unavailable') {
    return { title: 'Database unavailable', text: `${apiError.message}.`, requestId: id }
  }
  if (apiError.status >= 500) {
    const text =
      'Try again in a moment. The operator finds the cause in the console log under this request id.'
    return { title: 'Internal console error', text, requestId: id }
  }
  return { title: 'Request rejected', text: `${apiError.message}.`, requestId: id }
}

interface Problem {
  readonly title: string
  readonly text: string
  /** Shown to find the request in the log; null if the log has nothing to add. */
  readonly requestId: string | null
  /** Where to go; default: the start page. */
  readonly next?: { readonly path: string; readonly text: string }
}

const START = { path: '/', text: 'Go to the start page' }

/** @param frame null if no person is signed in */
export function problemPage(frame: Frame | null, { title, text, requestId, next = START }: Problem): Html {
  const main = html`<h1>${title}</h1>
    <p class="lead">${text}</p>
    ${requestId === null ? null : html`<p class="muted">Request id: ${copyable('request-id', requestId)}</p>`}
    <p class="actions"><a class="button primary" href="${next.path}">${next.text}</a></p>`
  return frame === null ? barePage(title, main) : page(frame, { title, section: null, main })
}
