import type { Clock } from '../../domain/clock.ts'
import type { Capability } from '../platform/capability.ts'
import type { Database } from '../platform/database/database.ts'
import { SHOWS } from '../platform/html/guards.ts'
import { WORKSPACES } from '../platform/html/paths.ts'
import { bindCalls } from '../platform/http/admin-call.ts'
import { AUDIT_CALLS } from './api.ts'
import { type AuditPageParts, showAudit } from './pages.ts'

export { AUDIT_CALLS } from './api.ts'
export { type ChainReport, NoAuditChain, type VerifyOptions, verifyAudit } from './verify.ts'

interface OpenKeys {
  readonly database: Database
  readonly repository: AuditPageParts['keys']
}

/** Reading who did what to which key. `platform/audit` writes it. */
export function createAudit(
  { clock }: { readonly clock: Clock },
  { database, repository: keys }: OpenKeys,
): Capability {
  return {
    calls: bindCalls(AUDIT_CALLS, { database }),
    registerPages(scope) {
      scope.get(`${WORKSPACES}/:workspaceId/audit`, SHOWS, (request, reply) =>
        showAudit({ database, keys, clock }, request, reply),
      )
    },
  }
}
