import type { Call } from '../http/calls.ts'
import type { KeyRepository } from '../registry/database/key-repository.ts'
import type { AuditEntry } from '../registry/operations/audit.ts'
import { auditQuery } from './admin-schemas.ts'
import { readPageOptions } from './request-parameters.ts'

/** The admin API on the audit log, without its prefix. */
export function auditCalls({ repository }: { repository: KeyRepository }): Call[] {
  return [
    {
      method: 'GET',
      url: '/workspaces/:workspaceId/audit',
      operation: 'audit',
      forPeople: true,
      schema: { querystring: auditQuery },
      handle: async request => {
        const { entries, nextAfterId } = await repository.listAudit(readPageOptions(request))
        const answered = entries.map(auditEntryJson)
        return nextAfterId === null ? { entries: answered } : { entries: answered, cursor: nextAfterId }
      },
    },
  ]
}

function auditEntryJson({ atMs, actor, action, keyId, detail }: AuditEntry) {
  return { at: new Date(atMs).toISOString(), actor, action, keyId, detail }
}
