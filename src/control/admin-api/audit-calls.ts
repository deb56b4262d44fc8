import type { FastifyRequest } from 'fastify'
import { workspacesOf } from '../access/principal.ts'
import { invalidField } from '../http/api-error.ts'
import type { AdminCall } from '../http/calls.ts'
import { principalOf } from '../http/request-context.ts'
import { ROWS_AT_ONCE, sendLines } from '../http/send-lines.ts'
import { entryOfRow } from '../registry/database/audit-rows.ts'
import type { KeyRepository } from '../registry/database/key-repository.ts'
import type { AuditRow } from '../registry/database/tables.ts'
import type { AuditEntry, AuditFilter, AuditPage, ExportPosition } from '../registry/operations/audit.ts'
import { AUDIT_ACTIONS_EXPECTED, isAuditAction } from '../registry/operations/audit-actions.ts'
import { isKeyId } from '../registry/operations/ids.ts'
import {
  type AuditSearchQuery,
  auditQuery,
  auditSearchQuery,
  EXPECTED,
  exportQuery,
} from './admin-schemas.ts'
import { DEFAULT_PAGE_SIZE, readPageOptions } from './request-parameters.ts'

type AuditReader = { readonly repository: Pick<KeyRepository, 'listAudit' | 'searchAudit' | 'exportAudit'> }

/** The admin API on the audit log, without its prefix. */
export function auditCalls({ repository }: AuditReader): AdminCall[] {
  return [
    {
      method: 'GET',
      url: '/workspaces/:workspaceId/audit',
      operation: 'audit',
      permission: 'audit:read',
      workspaces: 'own',
      schema: { querystring: auditQuery },
      handle: async request => pageJson(await repository.listAudit(readPageOptions(request))),
    },
    {
      method: 'GET',
      url: '/audit',
      operation: 'audit',
      permission: 'audit:read',
      workspaces: 'own',
      schema: { querystring: auditSearchQuery },
      handle: async request => pageJson(await repository.searchAudit(readSearch(request))),
    },
    {
      method: 'GET',
      url: '/audit/export',
      operation: 'audit_export',
      permission: 'audit:read',
      workspaces: 'all',
      schema: { querystring: exportQuery },
      handle: async (request, reply) => sendLines(request, reply, () => exportLines(repository)),
    },
  ]
}

function readSearch(request: FastifyRequest) {
  // The route's schema has validated the query.
  const { limit, cursor, ...conditions } = request.query as AuditSearchQuery
  return {
    filter: readFilter(conditions),
    workspaces: workspacesOf(principalOf(request)),
    limit: Number(limit ?? DEFAULT_PAGE_SIZE),
    afterId: cursor ?? null,
  }
}

function readFilter({
  keyId,
  actor,
  action,
  from,
  to,
}: Omit<AuditSearchQuery, 'limit' | 'cursor'>): AuditFilter {
  if (keyId !== undefined && !isKeyId(keyId)) throw invalidField('keyId', 'a key id')
  if (action !== undefined && !isAuditAction(action)) throw invalidField('action', AUDIT_ACTIONS_EXPECTED)
  return { keyId, actor, action, fromMs: readInstant('from', from), toMs: readInstant('to', to) }
}

function readInstant(field: 'from' | 'to', text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const ms = Date.parse(text)
  if (Number.isNaN(ms)) throw invalidField(field, EXPECTED[field] ?? '')
  return ms
}

function pageJson({ entries, nextAfterId }: AuditPage) {
  const page = { entries: entries.map(entryJson), hasMore: nextAfterId !== null }
  return nextAfterId === null ? page : { ...page, cursor: nextAfterId }
}

function entryJson({ id, workspaceId, atMs, actor, action, keyId, detail }: AuditEntry) {
  return { id, at: new Date(atMs).toISOString(), workspaceId, actor, action, keyId, detail }
}

async function* exportLines(repository: AuditReader['repository']): AsyncGenerator<string> {
  let position: ExportPosition = { id: '' }
  for (;;) {
    const rows: AuditRow[] = await repository.exportAudit(position, ROWS_AT_ONCE)
    if (rows.length > 0) yield rows.map(exportLine).join('')
    const last = rows.at(-1)
    if (last !== undefined && rows.length === ROWS_AT_ONCE) {
      position = last.sequence === null ? { id: last.id } : { sequence: last.sequence }
    } else if ('id' in position) position = { sequence: 0 }
    else return
  }
}

function exportLine(row: AuditRow): string {
  const { sequence, hash } = row
  return `${JSON.stringify({ ...entryJson(entryOfRow(row)), sequence, hash })}\n`
}
