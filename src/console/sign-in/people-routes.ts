import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { textField } from '../platform/html/form-fields.ts'
import { fieldsOf, frameOf, queryOf, sendPage } from '../platform/html/page-request.ts'
import { END_SESSIONS, PEOPLE } from '../platform/html/paths.ts'
import { personOfRequest, requirePerson } from '../platform/html/signed-in.ts'
import { ApiError } from '../platform/http/api-error.ts'
import { callerOf } from '../platform/http/request-context.ts'
import { endSessionsPage, peoplePage, sessionsEndedPage } from './people-page.ts'
import type { Sessions } from './sessions.ts'
import { findPerson, listPeople, type PeopleParts } from './signed-in-people.ts'

const PAGE_SIZE = 50

/** Pages for administrators: who is signed in, and ending their sessions. */
/** What the pages of people use. */
interface PeoplePageParts {
  readonly clock: Clock
  readonly sessions: Pick<Sessions, 'endAll'>
  readonly people: PeopleParts
}

export function peopleRoutes(scope: FastifyInstance, sources: PeoplePageParts): void {
  const options = {
    onRequest: [requirePerson, requireAdministrator],
    config: { operation: 'page' as const },
  }
  scope.get(PEOPLE, options, (request, reply) => showPeople(sources, request, reply))
  scope.get(END_SESSIONS, options, (request, reply) => showConfirmation(sources, request, reply))
  scope.post(END_SESSIONS, options, (request, reply) => endSessions(sources, request, reply))
}

async function requireAdministrator(request: FastifyRequest): Promise<void> {
  if (!personOfRequest(request).administrator) {
    throw new ApiError('forbidden', 'This page is only for administrators')
  }
}

async function showPeople(
  sources: PeoplePageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const cursor = textField(queryOf(request), 'cursor')
  const afterSubject = cursor === '' ? null : cursor
  const { people, nextAfterSubject } = await listPeople(sources.people, { limit: PAGE_SIZE, afterSubject })
  const view = { people, nextCursor: nextAfterSubject, isFirstPage: afterSubject === null }
  return sendPage(reply, peoplePage(peopleFrame(sources, request, reply), view))
}

async function showConfirmation(
  sources: PeoplePageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const person = await findPerson(sources.people, textField(queryOf(request), 'subject'))
  if (person === null) return reply.redirect(PEOPLE, 303)
  return sendPage(reply, endSessionsPage(peopleFrame(sources, request, reply), person))
}

/** Submitted twice, the second request finds no session and changes nothing. */
async function endSessions(
  sources: PeoplePageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const subject = textField(fieldsOf(request), 'subject')
  const person = await findPerson(sources.people, subject)
  const ended = await sources.sessions.endAll({ subject }, callerOf(request))
  // An administrator who ended their own sessions has to sign in again.
  if (subject === personOfRequest(request).subject) return reply.redirect('/sign-in', 303)
  const view = { name: person?.name ?? subject, ended }
  return sendPage(reply, sessionsEndedPage(peopleFrame(sources, request, reply), view))
}

function peopleFrame({ clock }: PeoplePageParts, request: FastifyRequest, reply: FastifyReply) {
  return frameOf(request, reply, { workspaceId: null, clock })
}
