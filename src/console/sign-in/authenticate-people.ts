import cookie from '@fastify/cookie'
import csrfProtection from '@fastify/csrf-protection'
import helmet, { type FastifyHelmetOptions } from '@fastify/helmet'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { SAFE_METHODS } from '../platform/html/page-request.ts'
import { ApiError } from '../platform/http/api-error.ts'
import type { Sessions } from './sessions.ts'

const NONE = ["'none'"]
const SELF = ["'self'"]
const HALF_A_YEAR_SECONDS = 15_552_000

interface AuthenticationParts {
  readonly sessions: Sessions
  /** Null without `console.publicUrl`: then signing in is impossible. */
  readonly site: Site | null
}

/**
 * Session authentication for a Fastify scope, pages and admin API alike; call it first. It sets security headers, rejects
 * foreign hosts, sets `request.person`, and requires the CSRF token for every unsafe method of a session.
 *
 * A page puts `generateCsrfToken` into each form as the hidden field `_csrf`; scripts send it as `X-CSRF-Token`. Routes that
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

/** Nothing inline and nothing from other origins: injected markup stays inert. */
function securityHeaders(site: Site | null): FastifyHelmetOptions {
  return {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: NONE,
        scriptSrc: SELF,
        styleSrc: SELF,
        imgSrc: SELF,
        fontSrc: SELF,
        connectSrc: SELF,
        manifestSrc: SELF,
        formAction: SELF,
        baseUri: NONE,
        frameAncestors: NONE,
      },
    },
    xFrameOptions: { action: 'deny' },
    // Under `no-referrer` browsers would send `Origin: null` with forms, which is rejected.
    referrerPolicy: { policy: 'same-origin' },
    // Only this host: the rest of the domain is not ours.
    strictTransportSecurity:
      site?.secure === true ? { maxAge: HALF_A_YEAR_SECONDS, includeSubDomains: false } : false,
  }
}

/** The console's one public address. */
export interface Site {
  /** `https://console.example.com` */
  readonly origin: string
  readonly host: string
  /** Whether it is https. Plain http, allowed only on this machine, also means cookies without `Secure`. */
  readonly secure: boolean
  readonly sessionCookie: string
  readonly attemptCookie: string
}

/**
 * The `__Host-` prefix makes browsers accept the cookie only from this host over https, so that no sibling domain can
 * plant one (RFC 6265bis, section 4.1.3). Browsers reject the prefix over plain http.
 */
export function parseSite(publicUrl: string): Site {
  const { origin, host, protocol } = new URL(publicUrl)
  const secure = protocol === 'https:'
  const prefix = secure ? '__Host-' : ''
  return {
    origin,
    host,
    secure,
    sessionCookie: `${prefix}postern-session`,
    attemptCookie: `${prefix}postern-sign-in`,
  }
}

/** Rules out DNS rebinding: a foreign page whose name resolves here has its own name in `Host`. */
export function isOwnHost({ host, secure }: Site, sent: string | undefined): boolean {
  const name = sent?.toLowerCase()
  return name === host || name === `${host}:${secure ? 443 : 80}`
}

/**
 * Whether an unsafe request comes from one of our pages, as far as the browser says. Without these headers (old browsers)
 * the CSRF token decides.
 */
export function isOwnPage(
  { origin }: Site,
  sent: { readonly origin?: string | undefined; readonly 'sec-fetch-site'?: unknown },
): boolean {
  if (sent.origin !== undefined && sent.origin !== origin) return false
  const site = sent['sec-fetch-site']
  return site === undefined || site === 'same-origin' || site === 'none'
}
