import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import { LOGIN_OUTCOMES, type Metrics } from '../../observability/metrics/metrics.ts'
import { type Person, personActor, type UnusedClaim } from '../platform/access/principal.ts'
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
import { barePage, type Frame, page } from '../platform/html/layout.ts'
import {
  ADMINISTRATION,
  createFrame,
  readFormFields,
  readQuery,
  requirePerson,
  sendPage,
  signedInPerson,
} from '../platform/html/page-request.ts'
import {
  END_SESSIONS,
  endSessionsPath,
  PEOPLE,
  peoplePath,
  returnPath,
  SIGN_IN_CALLBACK,
} from '../platform/html/paths.ts'
import type { AddressLimit } from '../platform/http/authenticate-programs.ts'
import { describeCaller } from '../platform/http/request-context.ts'
import type { Site } from './authenticate-people.ts'
import { MAX_WORKSPACES } from './claims.ts'
import type { OneTimeLink } from './one-time-link.ts'
import {
  decodeSignInAttempt,
  encodeSignInAttempt,
  type Provider,
  SIGN_IN_ATTEMPT_SECONDS,
} from './provider.ts'
import {
  findPerson,
  listPeople,
  type Origin,
  type PeopleParts,
  type Sessions,
  type SignedInPerson,
} from './sessions.ts'
import { SignInError, type SignInProblem } from './sign-in-error.ts'

interface SignInParts {
  readonly site: Site | null
  readonly sessions: Sessions
  readonly provider: Provider | null
  /** Only in the demo. */
  readonly oneTimeLink: OneTimeLink | null
  readonly limit: AddressLimit
  /** How long a browser keeps the session's cookie. */
  readonly absoluteSeconds: number
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'logins'>
  readonly logger: ControlLogger
}

const PAGE = { config: { operation: 'page' } } as const
/** A GET that signs a person in: a HEAD of a program that looks at links must not use the link up. */
const SIGNS_IN = { ...PAGE, exposeHeadRoute: false } as const
const STATUS: Readonly<Record<SignInProblem, number>> = {
  denied: 403,
  invalid: 400,
  unavailable: 502,
  client_rejected: 502,
  limited: 429,
}

/** Routes for signing in and out, in a scope that `authenticatePeople` was called on. */
export function signInRoutes(scope: FastifyInstance, parts: SignInParts): void {
  const { metrics, sessions, site, provider, oneTimeLink } = parts
  for (const outcome of LOGIN_OUTCOMES) metrics.logins.inc({ outcome }, 0)

  scope.get('/sign-in', PAGE, async (request, reply) => {
    const then = readReturnPath(request)
    return request.person === null ? showSignIn(parts, reply, then, null) : reply.redirect(then, 303)
  })
  // Without a public URL the provider has no address to return to.
  if (site === null) return
  if (provider !== null) providerRoutes(scope, parts, site, provider)
  if (oneTimeLink !== null) {
    scope.get('/sign-in/once', SIGNS_IN, (request, reply) =>
      runStep(parts, reply, '/', async () => {
        const person = oneTimeLink.take(readQuery(request)['token'])
        if (person === null) throw new SignInError('invalid', 'the link was already used or has expired')
        return startSession(parts, site, reply, person, '/')
      }),
    )
  }
  scope.post('/sign-out', { ...PAGE, onRequest: requirePerson }, async (request, reply) => {
    const { everywhere } = (request.body ?? {}) as { everywhere?: unknown }
    if (everywhere !== undefined && request.person !== null) {
      await sessions.endAll(request.person, describeCaller(request))
    } else await sessions.end(request.cookies[site.sessionCookie] ?? '', requestOrigin(request))
    return clearCookie(reply, site, site.sessionCookie).redirect('/sign-in', 303)
  })
}

function providerRoutes(scope: FastifyInstance, parts: SignInParts, site: Site, provider: Provider): void {
  const { clock } = parts
  scope.get('/sign-in/start', PAGE, (request, reply) => {
    const then = readReturnPath(request)
    return runStep(parts, reply, then, async () => {
      const { address, attempt } = await provider.begin(then)
      setCookie(reply, site, site.attemptCookie, encodeSignInAttempt(attempt), SIGN_IN_ATTEMPT_SECONDS)
      return reply.redirect(address, 303)
    })
  })
  scope.get(SIGN_IN_CALLBACK, SIGNS_IN, async (request, reply) => {
    const attempt = decodeSignInAttempt(request.cookies[site.attemptCookie], clock.wallMs())
    // A browser keeps the last attempt, which another tab may have begun: the response to that is still to come.
    const isOfOther = attempt !== null && readQuery(request)['state'] !== attempt.state
    if (!isOfOther) clearCookie(reply, site, site.attemptCookie)
    if ((attempt === null || isOfOther) && request.person !== null) return reply.redirect('/', 303)
    const then = attempt?.returnPath ?? '/'
    return runStep(parts, reply, then, async () => {
      if (attempt === null) throw new SignInError('invalid', 'the browser has no sign-in in progress')
      const person = await provider.finish(new URL(request.url, site.origin), attempt)
      return startSession(parts, site, reply, person, then)
    })
  })
}

/** Always a new session id, which rules out session fixation. */
async function startSession(
  { sessions, absoluteSeconds, metrics, logger }: SignInParts,
  site: Site,
  reply: FastifyReply,
  person: Person,
  then: string,
): Promise<FastifyReply> {
  const before = reply.request.cookies[site.sessionCookie]
  const from = requestOrigin(reply.request)
  if (before !== undefined) await sessions.end(before, from)
  setCookie(reply, site, site.sessionCookie, await sessions.start(person, from), absoluteSeconds)
  metrics.logins.inc({ outcome: 'ok' })
  const { workspaces, workspacesGranted, administrator, unusedClaims = [] } = person
  const actor = personActor(person)
  logger.info({ actor, workspaces: workspaces.length, administrator }, 'person signed in')
  if (workspacesGranted !== undefined) {
    logger.warn(
      { actor, workspaces: workspacesGranted, limit: MAX_WORKSPACES },
      'person has more workspaces than a session holds',
    )
  }
  for (const unused of unusedClaims)
    logger.warn({ actor, ...logFields(unused) }, 'claim of a person not used')
  return reply.redirect(then, 303)
}

function logFields({ setting, ...unused }: UnusedClaim) {
  return { setting: `console.oidc.${setting}`, ...unused }
}

function requestOrigin(request: FastifyRequest): Origin {
  return { address: request.callerAddress, requestId: request.id }
}

/** Runs a step of signing in within the rate limit of the address; a failure is shown on the sign-in page. */
async function runStep(
  parts: SignInParts,
  reply: FastifyReply,
  then: string,
  step: () => Promise<FastifyReply>,
): Promise<FastifyReply> {
  const { limit, metrics, logger } = parts
  const { request } = reply
  try {
    const waitSeconds = await limit(request.callerAddress)
    if (waitSeconds > 0) {
      void reply.header('retry-after', waitSeconds)
      throw new SignInError('limited', 'too many attempts from this address')
    }
    return await step()
  } catch (error) {
    if (!(error instanceof SignInError)) throw error
    metrics.logins.inc({ outcome: error.outcome })
    logger.warn({ requestId: request.id, outcome: error.outcome, cause: error.message }, 'sign-in failed')
    return showSignIn(parts, reply, then, error.problem)
  }
}

function showSignIn(
  { provider, oneTimeLink, site }: SignInParts,
  reply: FastifyReply,
  then: string,
  problem: SignInProblem | null,
): FastifyReply {
  const way = site === null ? 'none' : provider !== null ? 'provider' : oneTimeLink !== null ? 'link' : 'none'
  const startPath = `/sign-in/start?then=${encodeURIComponent(then)}`
  return sendPage(reply, signInPage({ way, startPath, problem }), problem === null ? 200 : STATUS[problem])
}

function readReturnPath(request: FastifyRequest): string {
  return returnPath(readQuery(request)['then'])
}

function setCookie(reply: FastifyReply, site: Site, name: string, value: string, maxAge: number): void {
  void reply.setCookie(name, value, { ...cookieAttributes(site), maxAge })
}

/** With the same attributes as when it was set; browsers otherwise keep the cookie. */
function clearCookie(reply: FastifyReply, site: Site, name: string): FastifyReply {
  return reply.clearCookie(name, cookieAttributes(site))
}

/** Lax, not Strict: the provider's redirect comes from another site. */
function cookieAttributes({ secure }: Site) {
  return { path: '/', httpOnly: true, secure, sameSite: 'lax' } as const
}

interface SignInView {
  /** `provider`: the configured one. `link`: the link that the demo printed. `none`: not configured. */
  readonly way: 'provider' | 'link' | 'none'
  /** Where the button leads, including the path to return to. */
  readonly startPath: string
  /** Why the last attempt failed; null if there was none. */
  readonly problem: SignInProblem | null
}

const PROBLEMS: Readonly<Record<SignInProblem, string | Html>> = {
  denied: 'The sign-in provider denied access. If you cancelled by accident, sign in again.',
  invalid: 'The sign-in provider’s response was invalid or too late. Sign in again.',
  unavailable: 'The sign-in provider is unavailable. Try again in a moment.',
  client_rejected: html`Signing in failed: the provider rejected the client's credentials, which are those of this console. Its operator must correct them; the console log names the settings to check.`,
  limited: 'Too many sign-in attempts from your address. Wait one minute, then try again.',
}
const USED_LINK = 'This link was already used or has expired.'

function signInPage({ way, startPath, problem }: SignInView): Html {
  const text =
    problem === 'invalid' && way === 'link' ? USED_LINK : problem === null ? null : PROBLEMS[problem]
  const main = html`<h1>Sign in</h1>
    <p class="lead">Issue, rotate and revoke the API keys of your workspaces.</p>
    ${text === null ? null : html`<p class="notice bad" role="alert">${text}</p>`}
    ${signInOptions(way, startPath)}`
  return barePage('Sign in', main)
}

function signInOptions(way: SignInView['way'], startPath: string): Html {
  switch (way) {
    case 'provider':
      return html`<a class="button primary" href="${startPath}">Sign in with your account</a>`
    case 'link':
      return html`<p class="notice">Open the sign-in link that the demo printed in its terminal. It works once: press Enter in the terminal for a new one. A demo that runs without a terminal prints one only when it starts: start it again.</p>`
    case 'none':
      return html`<p class="notice">Sign-in is not configured. The operator of this console must set <code>console.oidc.issuer</code> and <code>console.publicUrl</code>.</p>`
  }
}

const PAGE_SIZE = 50

interface PeoplePageParts {
  readonly clock: Clock
  readonly sessions: Pick<Sessions, 'endAll'>
  readonly people: PeopleParts
}

/** Pages for administrators: who is signed in, and ending their sessions. */
export function peopleRoutes(scope: FastifyInstance, sources: PeoplePageParts): void {
  scope.get(PEOPLE, ADMINISTRATION, (_, reply) => showPeople(sources, reply))
  scope.get(END_SESSIONS, ADMINISTRATION, (_, reply) => showConfirmation(sources, reply))
  scope.post(END_SESSIONS, ADMINISTRATION, (_, reply) => endSessions(sources, reply))
}

async function showPeople(sources: PeoplePageParts, reply: FastifyReply): Promise<FastifyReply> {
  const cursor = textField(readQuery(reply.request), 'cursor')
  const afterSubject = cursor === '' ? null : cursor
  const { people, nextAfterSubject } = await listPeople(sources.people, { limit: PAGE_SIZE, afterSubject })
  const view = { people, nextCursor: nextAfterSubject, isFirstPage: afterSubject === null }
  return sendPage(reply, peoplePage(peopleFrame(sources, reply), view))
}

async function showConfirmation(sources: PeoplePageParts, reply: FastifyReply): Promise<FastifyReply> {
  const person = await findPerson(sources.people, textField(readQuery(reply.request), 'subject'))
  if (person === null) return reply.redirect(PEOPLE, 303)
  return sendPage(reply, endSessionsPage(peopleFrame(sources, reply), person))
}

/** Submitted twice, the second request finds no session and changes nothing. */
async function endSessions(sources: PeoplePageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const subject = textField(readFormFields(request), 'subject')
  const person = await findPerson(sources.people, subject)
  const ended = await sources.sessions.endAll({ subject }, describeCaller(request))
  // An administrator who ended their own sessions has to sign in again.
  if (subject === signedInPerson(request).subject) return reply.redirect('/sign-in', 303)
  const view = { name: person?.name ?? subject, ended }
  return sendPage(reply, sessionsEndedPage(peopleFrame(sources, reply), view))
}

function peopleFrame({ clock }: PeoplePageParts, reply: FastifyReply) {
  return createFrame(reply, { workspaceId: null, clock })
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
