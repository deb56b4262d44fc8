import cookie from '@fastify/cookie'
import csrfProtection from '@fastify/csrf-protection'
import helmet from '@fastify/helmet'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { SAFE_METHODS } from '../platform/html/signed-in.ts'
import { ApiError } from '../platform/http/api-error.ts'
import { securityHeaders } from './security-headers.ts'
import type { Sessions } from './sessions.ts'
import { isOwnHost, isOwnPage, type Site } from './site.ts'

export interface AuthenticationParts {
  readonly sessions: Sessions
  /** Null without `console.publicUrl`: then signing in is impossible. */
  readonly site: Site | null
}

/**
 * Session authentication for a Fastify scope, pages and admin API alike; call it first. It sets security headers, rejects
 * foreign hosts, sets `request.person`, and requires the CSRF token for every unsafe method of a session.
 *
 * A page puts `csrfTokenOf` into each form as the hidden field `_csrf`; scripts send it as `X-CSRF-Token`. Routes that
 * need a signed-in person use `{ onRequest: requirePerson }`, so that no body of others is read.
 */
export async function authenticatePeople(
  scope: FastifyInstance,
  { sessions, site }: AuthenticationParts,
): Promise<void> {
  await scope.register(cookie)
  await scope.register(helmet, securityHeaders(site))
  await scope.register(csrfProtection, { sessionPlugin: '@fastify/session', getToken: csrfTokenSent })
  scope.addHook('onRequest', async request => {
    if (site === null || isProgram(request)) return
    rejectForeignRequest(request, site)
    const id = request.cookies[site.sessionCookie] ?? ''
    const session = await sessions.find(id)
    request.person = session?.person ?? null
    request.principal = session === null ? null : { kind: 'person', person: session.person }
    request.isStillAdmitted = async () => (await sessions.find(id)) !== null
    request.session = session === null ? null : { _csrf: session.csrfSecret }
  })
  // After the body is parsed, which holds a form's token, and before its validation.
  scope.addHook('preValidation', (request, reply, done) => {
    if (request.session === null || SAFE_METHODS.has(request.method)) done()
    else scope.csrfProtection(request, reply, done)
  })
}

/** A program sends its token explicitly, which no browser does by itself: CSRF does not apply. */
function isProgram({ url, headers }: FastifyRequest): boolean {
  return url.startsWith('/admin/') && headers.authorization !== undefined
}

function rejectForeignRequest({ headers, method }: FastifyRequest, site: Site): void {
  if (!isOwnHost(site, headers.host)) {
    throw new ApiError('misdirected_request', `This console is available only at ${site.origin}`)
  }
  if (!SAFE_METHODS.has(method) && !isOwnPage(site, headers)) {
    throw new ApiError('forbidden', 'This request comes from another site')
  }
}

function csrfTokenSent({ headers, body }: FastifyRequest): string | undefined {
  const sent = headers['x-csrf-token'] ?? (body as { _csrf?: unknown } | null | undefined)?._csrf
  return typeof sent === 'string' ? sent : undefined
}
