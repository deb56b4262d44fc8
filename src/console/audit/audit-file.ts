import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AuditEntry } from '../platform/audit/entries.ts'
import { readQuery } from '../platform/html/page-request.ts'
import { ApiError } from '../platform/http/api-error.ts'
import { type FileFormat, sendFile } from '../platform/http/send-file.ts'
import { ROWS_AT_ONCE } from '../platform/http/send-lines.ts'
import { entryJson } from './api.ts'
import { checkFilterForm, readFilterForm } from './filter-form.ts'
import { type AuditPage, type AuditQuery, type ReadableAudit, searchAudit } from './rows.ts'

const COLUMNS = [
  'at',
  'action',
  'keyId',
  'name',
  'actor',
  'by',
  'address',
  'workspaceId',
  'id',
  'detail',
] as const

/** The entries of a page's filter, newest first, as a file. */
export function sendAuditFile(
  database: ReadableAudit,
  request: FastifyRequest,
  reply: FastifyReply,
  { workspaceId, format }: { readonly workspaceId: string | null; readonly format: FileFormat },
): FastifyReply {
  const checked = checkFilterForm(readFilterForm(readQuery(request)), workspaceId)
  if (!checked.ok) throw new ApiError('invalid_request', [...checked.problems.values()].join('. '))
  const file = {
    name: `audit${workspaceId === null ? '' : `-${workspaceId}`}`,
    columns: COLUMNS,
    toCells: entryCells,
    toJson: entryJson,
    readParts: () => readEntries(database, checked),
  }
  return sendFile(request, reply, file, format)
}

/** Entries that are added meanwhile are left out. */
async function* readEntries(
  database: ReadableAudit,
  { filter, workspaces }: Pick<AuditQuery, 'filter' | 'workspaces'>,
): AsyncGenerator<readonly AuditEntry[]> {
  const query = { filter, workspaces, limit: ROWS_AT_ONCE }
  let afterId: string | null = null
  do {
    const { entries, nextAfterId }: AuditPage = await searchAudit(database, { ...query, afterId })
    yield entries
    afterId = nextAfterId
  } while (afterId !== null)
}

function entryCells(entry: AuditEntry): Record<(typeof COLUMNS)[number], unknown> {
  const { detail, ...fields } = entryJson(entry)
  const shown = { by: detail['by'], name: detail['name'], address: detail['from'] }
  return { ...fields, ...shown, detail: JSON.stringify(detail) }
}
