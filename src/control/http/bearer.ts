import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { onRequestHookHandler } from 'fastify'
import { ApiError } from './api-error.ts'

const CHALLENGE = { 'www-authenticate': 'Bearer realm="postern"' }
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i

/** Lets nobody pass but who holds the token, or is signed in; of whom nobody is where nobody is known. */
export function requireBearerOrPerson(token: () => string | undefined): onRequestHookHandler {
  const isBearer = requireBearer(token)
  return async function (request, reply) {
    if (request.person === null) await isBearer.call(this, request, reply, () => {})
  }
}

/** Lets nobody pass but who holds the token; nobody at all where none is set. It may change. */
export function requireBearer(token: () => string | undefined): onRequestHookHandler {
  return async request => {
    const current = token()
    const expected = current === undefined ? null : sha256(current)
    const presented = bearerTokenOf(request.raw)
    if (presented === null || expected === null || !timingSafeEqual(sha256(presented), expected)) {
      throw new ApiError('unauthenticated', 'A valid bearer token is required', CHALLENGE)
    }
  }
}

/** Node keeps the first of two Authorization headers without a word; whoever sends two is told no. */
function bearerTokenOf({ rawHeaders }: IncomingMessage): string | null {
  const isAuthorization = (text: string, index: number) =>
    index % 2 === 0 && text.toLowerCase() === 'authorization'
  const at = rawHeaders.findIndex(isAuthorization)
  if (at < 0 || rawHeaders.findLastIndex(isAuthorization) !== at) return null
  return BEARER.exec(rawHeaders[at + 1] ?? '')?.[1] ?? null
}

/** Digests have one length, so that comparing them in constant time tells nothing of the token's. */
function sha256(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
