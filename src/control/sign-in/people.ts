import cookie from '@fastify/cookie'
import csrfProtection from '@fastify/csrf-protection'
import helmet from '@fastify/helmet'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ApiError } from '../http/api-error.ts'
import { localPath, signInPath } from './local-path.ts'
import type { Person } from './person.ts'
import { securityHeaders } from './security-headers.ts'
import type { Sessions } from './sessions.ts'
import { isOwnHost, isOwnPage, type Site } from './site.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who is signed in, below what `usePeople` was called on; null for programs, and for whoever is not signed in. */
    person: Person | null
    /** Where @fastify/csrf-protection looks for the secret of its tokens. */
    session: { _csrf: string } | null
  }
}

export interface PeopleParts {
  readonly sessions: Sessions
  /** Null where no public address is configured: then nobody can be signed in. */
  readonly site: Site | null
}

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * What every route for people stands on, pages and admin API alike; call it first in a scope of Fastify's. It sets the
 * headers that protect pages, refuses other hosts, tells who is signed in (`request.person`), and lets no session change
 * anything without its token.
 *
 * A page calls `csrfTokenOf` and puts the token into each form as the hidden field `_csrf`; scripts send it as
 * `X-CSRF-Token`. Who must be signed in is said with `{ preHandler: requirePerson }`.
 */
export async function usePeople(scope: FastifyInstance, { sessions, site }: PeopleParts): Promise<void> {
  await scope.register(cookie)
  await scope.register(helmet, securityHeaders(site))
  await scope.register(csrfProtection, { sessionPlugin: '@fastify/session', getToken: csrfTokenSent })
  scope.addHook('onRequest', async request => {
    if (site === null || isOfProgram(request)) return
    refuseStrangers(request, site)
    const session = await sessions.find(request.cookies[site.sessionCookie] ?? '')
    request.person = session?.person ?? null
    request.session = session === null ? null : { _csrf: session.csrfSecret }
  })
  // As soon as the body is read, since a form's token is in it, and before anything is said about the rest of it.
  scope.addHook('preValidation', (request, reply, done) => {
    if (request.session === null || SAFE_METHODS.has(request.method)) done()
    else scope.csrfProtection(request, reply, done)
  })
}

/** A program shows its token with each request; nothing that a browser sends by itself does it any good. */
function isOfProgram({ url, headers }: FastifyRequest): boolean {
  return url.startsWith('/admin/') && headers.authorization !== undefined
}

function refuseStrangers({ headers, method }: FastifyRequest, site: Site): void {
  if (!isOwnHost(site, headers.host)) {
    throw new ApiError('misdirected_request', `This console is at ${site.origin}, and at no other address`)
  }
  if (!SAFE_METHODS.has(method) && !isOwnPage(site, headers)) {
    throw new ApiError('forbidden', 'This request comes from a page of another site')
  }
}

function csrfTokenSent({ headers, body }: FastifyRequest): string | undefined {
  const sent = headers['x-csrf-token'] ?? (body as { _csrf?: unknown } | null | undefined)?._csrf
  return typeof sent === 'string' ? sent : undefined
}

/** @returns for a form's hidden field `_csrf`, and for the header `X-CSRF-Token`; empty where nobody is signed in */
export function csrfTokenOf(request: FastifyRequest, reply: FastifyReply): string {
  return request.session === null ? '' : reply.generateCsrf()
}

/**
 * A preHandler. Sends whoever is not signed in to do so, and afterwards back to where they were; of a form that was sent
 * too late, that is the page that had it.
 */
export async function requirePerson(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (request.person !== null) return
  if (request.url.startsWith('/admin/')) {
    throw new ApiError('unauthenticated', 'A valid bearer token, or a session, is required')
  }
  const then = SAFE_METHODS.has(request.method) ? request.url : pathOf(request.headers.referer)
  await reply.redirect(signInPath(localPath(then) ?? '/'), 303)
}

/** Only a path of it is used, so that it does not matter whose it is. */
function pathOf(address: string | undefined): string | null {
  const url = URL.parse(address ?? '')
  return url === null ? null : url.pathname + url.search
}

/** For what takes a session and does more than its routes: the person, of whom `requirePerson` has made sure. */
export function personOfRequest({ person }: FastifyRequest): Person {
  if (person === null) throw new Error('This route lacks requirePerson')
  return person
}
