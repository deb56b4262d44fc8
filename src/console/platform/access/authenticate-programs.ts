import type { onRequestHookHandler } from 'fastify'
import type { AcceptedTokens } from '../http/accepted-tokens.ts'
import type { AddressLimit } from '../http/address-limit.ts'
import { ApiError } from '../http/api-error.ts'
import { bearerTokenOf, unauthenticated } from '../http/bearer.ts'
import { callerAddressOf } from '../http/request-context.ts'
import type { AdminToken } from './admin-token.ts'
import type { Principal } from './principal.ts'

export interface ProgramAuthentication {
  /** The current `POSTERN_ADMIN_TOKEN`. */
  readonly operatorTokens: AcceptedTokens
  readonly tokens: {
    /** @returns the reason for a token that was good once; null for any other text */
    identify(text: string): Promise<AdminToken | 'revoked' | 'expired' | null>
  }
  /** Of failed attempts. */
  readonly limit: AddressLimit
}

/**
 * Admits signed-in people and programs with a good token. A good token works however many attempts from its address have
 * failed: clients behind one address must not be able to lock each other out.
 */
export function requirePrincipal(parts: ProgramAuthentication): onRequestHookHandler {
  return async request => {
    if (request.principal !== null) return
    const presented = bearerTokenOf(request.raw)
    const found = presented === null ? null : await identify(parts, presented)
    if (isPrincipal(found)) {
      request.principal = found
      request.isStillAdmitted = async () =>
        presented !== null && isPrincipal(await identify(parts, presented))
      return
    }
    if (request.headers.authorization !== undefined) await countFailure(parts.limit, callerAddressOf(request))
    throw found === null ? unauthenticated() : unauthenticated(`This token ${PROBLEMS[found]}`)
  }
}

function isPrincipal(found: Principal | 'expired' | 'revoked' | null): found is Principal {
  return typeof found === 'object' && found !== null
}

/** Only the holder of the whole token learns this. */
const PROBLEMS = { expired: 'has expired', revoked: 'was revoked' } as const

async function identify(
  { operatorTokens, tokens }: ProgramAuthentication,
  presented: string,
): Promise<Principal | 'expired' | 'revoked' | null> {
  if (operatorTokens.accept(presented)) return { kind: 'operator' }
  const token = await tokens.identify(presented)
  return typeof token === 'string' || token === null ? token : { kind: 'token', token }
}

/** @throws ApiError if the address has failed too often */
async function countFailure(limit: AddressLimit, address: string): Promise<void> {
  const waitSeconds = await limit(address)
  if (waitSeconds === 0) return
  const text = `Too many failed attempts from this address; try again in ${waitSeconds} s`
  throw new ApiError('rate_limited', text, { 'retry-after': String(waitSeconds) })
}
