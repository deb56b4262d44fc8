import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import { ApiError } from '../../http/api-error.ts'
import { NO_RESOURCE } from '../../http/calls.ts'
import { explainError } from '../../http/explain-error.ts'
import { formPage } from '../../sign-in/local-path.ts'
import { FIND_KEY, WORKSPACES } from '../layout/paths.ts'
import { type Problem, problemPage } from '../pages/problem-page.ts'
import { frameOf, notFound, sendPage } from './page-request.ts'

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
      return reply.redirect(formPathOf(request), 303)
    }
    const apiError = explainError(error)
    if (apiError.status >= 500) logger.error({ err: error, requestId: request.id }, 'page request failed')
    const frame = request.person === null ? null : frameOf(request, reply, { workspaceId: null, clock })
    return sendPage(
      reply.headers(apiError.headers),
      problemPage(frame, problemOf(apiError, request)),
      apiError.status,
    )
  })
}

/** Other forms, such as that of signing out, are on several pages. */
function formPathOf({ url }: FastifyRequest): string {
  if (url === FIND_KEY) return FIND_KEY
  return url.startsWith(`${WORKSPACES}/`) ? formPage(url) : '/'
}

function problemOf(apiError: ApiError, { id }: FastifyRequest): Problem {
  if (apiError.status === 404) {
    const text = 'The URL may be incomplete, or belong to a workspace that you cannot access.'
    return { title: 'Page not found', text, requestId: null }
  }
  if (apiError.status >= 500) {
    const text =
      'Try again in a moment. The operator finds the cause in the console log under this request id.'
    return { title: 'Internal console error', text, requestId: id }
  }
  return { title: 'Request rejected', text: `${apiError.message}.`, requestId: id }
}
