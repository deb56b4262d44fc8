import type { AuditedDatabase } from '../platform/audit/mac.ts'
import type { Capability } from '../platform/capability.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import { SHOWS } from '../platform/html/page-request.ts'
import { WORKSPACES } from '../platform/html/paths.ts'
import { bindCalls } from '../platform/http/calls.ts'
import { AUDIT_CALLS } from './api.ts'
import { type AuditPageParts, showAudit } from './pages.ts'
import { startUpkeep } from './upkeep.ts'

export { AUDIT_CALLS } from './api.ts'
export { type ChainReport, NoAuditChain, type VerifyOptions, verifyAudit } from './verify.ts'

interface OpenKeys {
  readonly database: AuditedDatabase
  readonly repository: AuditPageParts['keys']
}

/** Reading who did what to which key, and keeping the chain up. `platform/audit` writes it. */
export function createAudit(context: ConsoleContext, { database, repository: keys }: OpenKeys): Capability {
  const { clock } = context
  let endUpkeep = () => {}
  return {
    calls: bindCalls(AUDIT_CALLS, { database }),
    registerPages(scope) {
      scope.get(`${WORKSPACES}/:workspaceId/audit`, SHOWS, (request, reply) =>
        showAudit({ database, keys, clock }, request, reply),
      )
    },
    start() {
      endUpkeep = startUpkeep({ ...context, database })
    },
    async stop() {
      endUpkeep()
    },
  }
}
