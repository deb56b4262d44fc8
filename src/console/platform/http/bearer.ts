import type { IncomingMessage } from 'node:http'
import type { onRequestHookHandler } from 'fastify'
import type { AcceptedTokens } from './accepted-tokens.ts'
import { ApiError } from './api-error.ts'

const CHALLENGE = { 'www-authenticate': 'Bearer realm="postern"' }
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i

/** Admits requests with one of the tokens. */
export function requireBearer(tokens: AcceptedTokens): onRequestHookHandler {
  return async request => {
    const presented = bearerTokenOf(request.raw)
    if (presented === null || !tokens.accept(presented)) throw unauthenticated()
  }
}

export function unauthenticated(text = 'A valid bearer token is required'): ApiError {
  return new ApiError('unauthenticated', text, CHALLENGE)
}

/** Node silently keeps the first of two Authorization headers; a request with two is rejected. */
export function bearerTokenOf({ rawHeaders }: IncomingMessage): string | null {
  const isAuthorization = (text: string, index: number) =>
    index % 2 === 0 && text.toLowerCase() === 'authorization'
  const at = rawHeaders.findIndex(isAuthorization)
  if (at < 0 || rawHeaders.findLastIndex(isAuthorization) !== at) return null
  return BEARER.exec(rawHeaders[at + 1] ?? '')?.[1] ?? null
}
