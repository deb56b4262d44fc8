import type { Capability } from '../platform/capability.ts'
import { bindCalls } from '../platform/http/calls.ts'
import { TOKEN_CALLS } from './api.ts'
import { type AdminTokenParts, type AdminTokens, createAdminTokens } from './operations.ts'

export { TOKEN_CALLS } from './api.ts'
export type { AdminTokens } from './operations.ts'

/** Tokens of programs. */
export function createTokens(parts: AdminTokenParts): {
  readonly tokens: AdminTokens
  readonly capability: Capability
} {
  const tokens = createAdminTokens(parts)
  return { tokens, capability: { calls: bindCalls(TOKEN_CALLS, { tokens }) } }
}
