import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { hidden, textField } from '../platform/html/form-parts.ts'
import {
  ago,
  cell,
  type Html,
  html,
  type ListPlace,
  markInvisible,
  pageLinks,
} from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import {
  ADMINISTRATION,
  createFrame,
  readFormFields,
  readQuery,
  sendPage,
  signedInPerson,
} from '../platform/html/page-request.ts'
import { END_SESSIONS, endSessionsPath, PEOPLE, peoplePath } from '../platform/html/paths.ts'
import { describeCaller } from '../platform/http/request-context.ts'
import { findPerson, listPeople, type PeopleParts, type Sessions, type SignedInPerson } from './sessions.ts'

const PAGE_SIZE = 50

interface PeoplePageParts {
  readonly clock: Clock
  readonly sessions: Pick<Sessions, 'endAll'>
  readonly people: PeopleParts
}

/** Pages for administrators: who is signed in, and ending their sessions. */
export function peopleRoutes(scope: FastifyInstance, sources: PeoplePageParts): void {
  scope.get(PEOPLE, ADMINISTRATION, (request, reply) => showPeople(sources, request, reply))
  scope.get(END_SESSIONS, ADMINISTRATION, (request, reply) => showConfirmation(sources, request, reply))
  scope.post(END_SESSIONS, ADMINISTRATION, (request, reply) => endSessions(sources, request, reply))
}

async function showPeople(
  sources: PeoplePageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const cursor = textField(readQuery(request), 'cursor')
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
  const person = await findPerson(sources.people, textField(readQuery(request), 'subject'))
  if (person === null) return reply.redirect(PEOPLE, 303)
  return sendPage(reply, endSessionsPage(peopleFrame(sources, request, reply), person))
}

/** Submitted twice, the second request finds no session and changes nothing. */
async function endSessions(
  sources: PeoplePageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const subject = textField(readFormFields(request), 'subject')
  const person = await findPerson(sources.people, subject)
  const ended = await sources.sessions.endAll({ subject }, describeCaller(request))
  // An administrator who ended their own sessions has to sign in again.
  if (subject === signedInPerson(request).subject) return reply.redirect('/sign-in', 303)
  const view = { name: person?.name ?? subject, ended }
  return sendPage(reply, sessionsEndedPage(peopleFrame(sources, request, reply), view))
}

function peopleFrame({ clock }: PeoplePageParts, request: FastifyRequest, reply: FastifyReply) {
  return createFrame(request, reply, { workspaceId: null, clock })
}

interface PeopleView extends ListPlace {
  readonly people: readonly SignedInPerson[]
}

function peoplePage(frame: Frame, view: PeopleView): Html {
  const main = html`<h1>Signed-in people</h1>
    <p class="lead">End the sessions of a person who left or lost a device. They can sign in again as long as the sign-in provider lets them.</p>
    ${view.people.length === 0 ? html`<p class="empty">No person on this page is signed in.</p>` : table(view.people, frame.nowMs)}
    ${pageLinks(view, peoplePath, { first: 'First page', next: 'More people' })}`
  return page(frame, { title: 'Signed-in people', section: null, main })
}

function table(people: readonly SignedInPerson[], nowMs: number): Html {
  return html`<table class="stacks">
    <caption class="hidden">People with sessions</caption>
    <thead><tr><th scope="col">Person</th><th scope="col">Sessions</th><th scope="col">Last seen</th><th scope="col"><span class="hidden">Action</span></th></tr></thead>
    <tbody>${people.map(person => row(person, nowMs))}</tbody>
  </table>`
}

function row(person: SignedInPerson, nowMs: number): Html {
  const { subject, sessions, lastSeenMs } = person
  return html`<tr>
    <th scope="row"><span class="breaks">${personHtml(person)}</span></th>
    ${cell('Sessions', sessions)}
    ${cell('Last seen', ago(lastSeenMs, nowMs))}
    ${cell('Action', html`<a href="${endSessionsPath(subject)}">End sessions<span class="hidden"> of ${markInvisible(person.name)}</span></a>`)}
  </tr>`
}

function personHtml({ name, subject }: SignedInPerson): Html {
  return html`${markInvisible(name)} <span class="muted small">${markInvisible(subject)}</span>`
}

/** Asks for confirmation. */
function endSessionsPage(frame: Frame, person: SignedInPerson): Html {
  const { subject, sessions, lastSeenMs } = person
  const main = html`<p class="back"><a href="${PEOPLE}">Signed-in people</a></p>
    <h1>End sessions</h1>
    <p class="lead breaks">${personHtml(person)}: ${sessionCount(sessions)}, last seen ${ago(lastSeenMs, frame.nowMs)}.</p>
    <div class="card"><form method="post" action="${END_SESSIONS}">
      ${hidden({ _csrf: frame.csrfToken, subject })}
      <p>The person is signed out in every browser. What they had not submitted is lost.</p>
      <div class="actions"><button class="danger">End sessions</button> <a href="${PEOPLE}">Cancel</a></div>
    </form></div>`
  return page(frame, { title: 'End sessions', section: null, main })
}

function sessionsEndedPage(
  frame: Frame,
  { name, ended }: { readonly name: string; readonly ended: number },
): Html {
  const text = ended === 0 ? 'Nothing changed: there was no session left.' : `${sessionCount(ended)} ended.`
  const main = html`<p class="back"><a href="${PEOPLE}">Signed-in people</a></p>
    <h1>Sessions ended</h1>
    <p class="lead breaks">${markInvisible(name)}: ${text}</p>
    <p class="actions"><a class="button primary" href="${PEOPLE}">Signed-in people</a></p>`
  return page(frame, { title: 'Sessions ended', section: null, main })
}

function sessionCount(sessions: number): string {
  return sessions === 1 ? '1 session' : `${sessions} sessions`
}
