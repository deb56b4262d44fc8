import { type Static, Type } from 'typebox'
import { toInstant } from '../../domain/form/instant.ts'
import { WORKSPACE_ID_EXPECTED } from '../../domain/key/key-record.ts'
import { readAuditRow } from '../platform/audit/chain.ts'
import { AUDIT_ACTIONS_EXPECTED, type AuditEntry, isAuditAction } from '../platform/audit/entries.ts'
import type { AuditRow } from '../platform/database/tables.ts'
import { invalidField } from '../platform/http/api-error.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import {
  fields,
  instantParameter,
  keyIdParameter,
  listJson,
  pageQuery,
  pageSchema,
  parameter,
} from '../platform/http/fields.ts'
import { auditEntry } from '../platform/http/items.ts'
import {
  readConditions,
  readPage,
  readPageOptions,
  readWorkspaces,
} from '../platform/http/request-context.ts'
import { ROWS_AT_ONCE, sendJsonLines } from '../platform/http/send-file.ts'
import { type AuditFilter, type AuditPage, exportAudit, type ReadableAudit, searchAudit } from './rows.ts'

const adminCall = declareCalls<ReadableAudit>()

const page = pageQuery('audit')
const searchQuery = fields({
  keyId: keyIdParameter,
  actor: Type.Optional(Type.String({ minLength: 1, maxLength: 300, description: '1 to 300 characters' })),
  action: parameter(AUDIT_ACTIONS_EXPECTED),
  workspaceId: parameter(WORKSPACE_ID_EXPECTED),
  from: instantParameter,
  to: instantParameter,
  ...page.properties,
})

const entries = pageSchema('entries', auditEntry)
const exportedEntry = Type.Object(
  {
    ...auditEntry.properties,
    sequence: Type.Integer({ description: 'Place in the chain' }),
    hash: Type.String({ description: 'Over this entry and the hash of the one before' }),
  },
  { title: 'ExportedAuditEntry' },
)

/** The admin API on the audit log, without its prefix. */
export const AUDIT_CALLS: readonly AdminCall<ReadableAudit>[] = [
  adminCall({
    id: 'listWorkspaceAudit',
    method: 'GET',
    url: '/workspaces/:workspaceId/audit',
    operation: 'audit',
    permission: 'audit:read',
    workspaces: 'own',
    summary: 'Audit entries of a workspace, newest first',
    query: page,
    response: entries,
    errors: ['not_found'],
    handle: async (database, { request, query }) => {
      const { workspaceId, ...page } = readPageOptions(request, query)
      return pageJson(await searchAudit(database, { filter: {}, workspaces: [workspaceId], ...page }))
    },
  }),
  adminCall({
    id: 'searchAudit',
    method: 'GET',
    url: '/audit',
    operation: 'audit',
    permission: 'audit:read',
    workspaces: 'own',
    summary: 'Audit entries of all workspaces that the caller may see, newest first',
    query: searchQuery,
    response: entries,
    errors: ['not_found'],
    handle: async (database, { request, query }) => {
      const filter = readFilter(query)
      const workspaces = readWorkspaces(request, query.workspaceId)
      return pageJson(await searchAudit(database, { filter, workspaces, ...readPage(query) }))
    },
  }),
  adminCall({
    id: 'exportAudit',
    method: 'GET',
    url: '/audit/export',
    operation: 'audit_export',
    permission: 'audit:read',
    workspaces: 'all',
    summary: 'Every audit entry, oldest first, with its place in the chain of hashes',
    format: 'lines',
    response: exportedEntry,
    handle: async (database, { reply }) =>
      sendJsonLines(reply, () => exportAudit(database, ROWS_AT_ONCE), exportedJson),
  }),
]

function readFilter({ actor, action, ...more }: Static<typeof searchQuery>): AuditFilter {
  const conditions = readConditions(more)
  if (action !== undefined && !isAuditAction(action)) throw invalidField('action', AUDIT_ACTIONS_EXPECTED)
  return { ...conditions, actor, action }
}

function pageJson({ entries, nextAfterId }: AuditPage) {
  return listJson({ entries: entries.map(entryJson) }, nextAfterId)
}

/** As every answer and file has it. */
export function entryJson({ id, workspaceId, atMs, actor, action, keyId, detail }: AuditEntry) {
  return { id, at: toInstant(atMs), workspaceId, actor, action, keyId, detail }
}

function exportedJson(row: AuditRow) {
  const { sequence, hash } = row
  return { ...entryJson(readAuditRow(row)), sequence, hash }
}
