import type { Capability } from '../platform/capability.ts'
import { bindCalls } from '../platform/http/calls.ts'
import { TOKEN_CALLS } from './api.ts'
import { makeTokenRoutes } from './make-page.ts'
import { type AdminTokenParts, type AdminTokens, createAdminTokens } from './operations.ts'
import { tokenRoutes } from './pages.ts'

export { TOKEN_CALLS } from './api.ts'
export type { AdminTokens } from './operations.ts'

/** Tokens of programs, for the admin API and for administrators. */
export function createTokens(parts: AdminTokenParts): {
  readonly tokens: AdminTokens
  readonly capability: Capability
} {
  const tokens = createAdminTokens(parts)
  return {
    tokens,
    capability: {
      calls: bindCalls(TOKEN_CALLS, { tokens }),
      registerPages(scope) {
        const pageParts = { ...parts, tokens }
        tokenRoutes(scope, pageParts)
        makeTokenRoutes(scope, pageParts)
      },
    },
  }
}
