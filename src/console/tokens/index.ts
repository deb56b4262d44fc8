import type { Capability } from '../platform/capability.ts'
import { bindCalls } from '../platform/http/admin-call.ts'
import type { AdminTokens } from './admin-tokens.ts'
import { TOKEN_CALLS } from './token-calls.ts'
import { WHOAMI_CALLS } from './whoami-calls.ts'

/** Tokens of programs. */
export function createTokens(tokens: AdminTokens): Capability {
  return { calls: [...bindCalls(TOKEN_CALLS, { tokens }), ...bindCalls(WHOAMI_CALLS, null)] }
}
