import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import type { ApiError } from '../../http/api-error.ts'
import { explainError } from '../../http/explain-error.ts'
import { WORKSPACES } from '../layout/paths.ts'
import { type Problem, problemPage } from '../pages/problem-page.ts'
import { answerPage, formAgainPath, frameOf } from './page-request.ts'

/** Whatever goes wrong below pages is told on a page. */
export function usePageErrors(
  scope: FastifyInstance,
  { clock, logger }: { clock: Clock; logger: ControlLogger },
): void {
  scope.setErrorHandler((error: FastifyError | ApiError, request, reply) => {
    // The session of the form is over and another one has begun: the form is there again, with what was typed.
    if ('code' in error && error.code.startsWith('FST_CSRF_')) {
      return reply.redirect(request.url.startsWith(WORKSPACES) ? formAgainPath(request) : '/', 303)
    }
    const refusal = explainError(error)
    if (refusal.status >= 500) logger.error({ err: error, requestId: request.id }, 'a page failed')
    const frame = request.person === null ? null : frameOf(request, reply, { workspaceId: null, clock })
    return answerPage(
      reply.headers(refusal.headers),
      problemPage(frame, problemOf(refusal, request)),
      refusal.status,
    )
  })
}

function problemOf(refusal: ApiError, { id }: FastifyRequest): Problem {
  if (refusal.status === 404) {
    const text = 'Perhaps the address was copied in part, or it belongs to a workspace that is not yours.'
    return { title: 'There is nothing here', text, requestId: null }
  }
  if (refusal.status >= 500) {
    const text =
      'This is a fault of the console, not yours. Please try again in a moment; whoever runs it finds the reason under this id.'
    return { title: 'That did not work', text, requestId: id }
  }
  return { title: 'This cannot be done', text: `${refusal.message}.`, requestId: id }
}
