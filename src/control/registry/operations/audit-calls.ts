import { auditQuery } from '../../http/admin-schemas.ts'
import type { Call } from '../../http/calls.ts'
import type { KeyRepository } from '../database/key-repository.ts'
import type { AuditEntry } from './audit.ts'
import { pageQuestionOf } from './routes.ts'

/** The admin API on what was done, without its prefix. */
export function auditCalls({ repository }: { repository: KeyRepository }): Call[] {
  return [
    {
      method: 'GET',
      url: '/workspaces/:workspaceId/audit',
      operation: 'audit',
      forPeople: true,
      schema: { querystring: auditQuery },
      handle: async request => {
        const { entries, nextAfterId } = await repository.listAudit(pageQuestionOf(request))
        const answered = entries.map(answeredEntry)
        return nextAfterId === null ? { entries: answered } : { entries: answered, cursor: nextAfterId }
      },
    },
  ]
}

function answeredEntry({ atMs, actor, action, keyId, detail }: AuditEntry) {
  return { at: new Date(atMs).toISOString(), actor, action, keyId, detail }
}
