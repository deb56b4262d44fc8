import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Person } from '../access/person.ts'
import { ApiError } from '../http/api-error.ts'
import { returnPath, signInPath } from './local-path.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The signed-in person, in scopes of `authenticatePeople`; null for programs and without a session. */
    person: Person | null
    /** @fastify/csrf-protection reads the secret of its tokens here. */
    session: { _csrf: string } | null
  }
}

export const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** @returns the token for the field `_csrf` or the header `X-CSRF-Token`; empty without a session */
export function csrfTokenOf(request: FastifyRequest, reply: FastifyReply): string {
  return request.session === null ? '' : reply.generateCsrf()
}

/**
 * An onRequest hook. Redirects to signing in and afterwards back to the page, or to the page of the form that was sent.
 */
export async function requirePerson(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (request.person !== null) return
  if (request.url.startsWith('/admin/')) {
    throw new ApiError('unauthenticated', 'A valid bearer token or session is required')
  }
  const then = SAFE_METHODS.has(request.method) ? request.url : pathOf(request.headers.referer)
  await reply.redirect(signInPath(returnPath(then)), 303)
}

/** Uses only the path of the address, so that its host does not matter. */
function pathOf(address: string | undefined): string | null {
  const url = URL.parse(address ?? '')
  return url === null ? null : url.pathname + url.search
}

/** The person, in routes behind `requirePerson`. */
export function personOfRequest({ person }: FastifyRequest): Person {
  if (person === null) throw new Error('This route requires the hook requirePerson')
  return person
}
