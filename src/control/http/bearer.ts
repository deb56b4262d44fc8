import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { onRequestHookHandler } from 'fastify'
import { ApiError } from './api-error.ts'

const CHALLENGE = { 'www-authenticate': 'Bearer realm="postern"' }
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i

/** Admits requests with the current token; without one, none. */
export function requireBearer(token: () => string | undefined): onRequestHookHandler {
  return async request => {
    const presented = bearerTokenOf(request.raw)
    if (presented === null || !isSameToken(presented, token())) throw unauthenticated()
  }
}

export function unauthenticated(text = 'A valid bearer token is required'): ApiError {
  return new ApiError('unauthenticated', text, CHALLENGE)
}

/** Compares in constant time. @param expected undefined equals nothing */
export function isSameToken(presented: string, expected: string | undefined): boolean {
  return expected !== undefined && timingSafeEqual(sha256(presented), sha256(expected))
}

/** Node silently keeps the first of two Authorization headers; a request with two is rejected. */
export function bearerTokenOf({ rawHeaders }: IncomingMessage): string | null {
  const isAuthorization = (text: string, index: number) =>
    index % 2 === 0 && text.toLowerCase() === 'authorization'
  const at = rawHeaders.findIndex(isAuthorization)
  if (at < 0 || rawHeaders.findLastIndex(isAuthorization) !== at) return null
  return BEARER.exec(rawHeaders[at + 1] ?? '')?.[1] ?? null
}

/** Digests have one length, so that the constant-time comparison does not reveal the token's. */
function sha256(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
