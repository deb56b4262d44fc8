import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AuditEntry } from '../platform/audit/entries.ts'
import { readQuery } from '../platform/html/page-request.ts'
import { ApiError } from '../platform/http/api-error.ts'
import { NDJSON, ROWS_AT_ONCE, sendLines } from '../platform/http/send-lines.ts'
import { entryJson } from './api.ts'
import { checkFilterForm, readFilterForm } from './filter-form.ts'
import { type AuditPage, type AuditQuery, type ReadableAudit, searchAudit } from './rows.ts'

const FORMATS = {
  csv: { type: 'text/csv; charset=utf-8; header=present', line: csvLine },
  ndjson: { type: NDJSON, line: (entry: AuditEntry) => `${JSON.stringify(entryJson(entry))}\n` },
} as const

type AuditFile = keyof typeof FORMATS
export const AUDIT_FILES: readonly AuditFile[] = ['csv', 'ndjson']

/** The entries of a page's filter, newest first, as a file. */
export function sendAuditFile(
  database: ReadableAudit,
  request: FastifyRequest,
  reply: FastifyReply,
  { workspaceId, format }: { readonly workspaceId: string | null; readonly format: AuditFile },
): FastifyReply {
  const checked = checkFilterForm(readFilterForm(readQuery(request)), workspaceId)
  if (!checked.ok) throw new ApiError('invalid_request', [...checked.problems.values()].join('. '))
  void reply.header(
    'content-disposition',
    `attachment; filename="audit${workspaceId === null ? '' : `-${workspaceId}`}.${format}"`,
  )
  const lines = () => fileLines(database, checked, format)
  return sendLines(request, reply, lines, FORMATS[format].type)
}

/** Each part is read when the client has taken the one before; entries that are added meanwhile are not in the file. */
async function* fileLines(
  database: ReadableAudit,
  { filter, workspaces }: Pick<AuditQuery, 'filter' | 'workspaces'>,
  format: AuditFile,
): AsyncGenerator<string> {
  if (format === 'csv') yield `${COLUMNS.join(',')}\r\n`
  const query = { filter, workspaces, limit: ROWS_AT_ONCE }
  let afterId: string | null = null
  do {
    const { entries, nextAfterId }: AuditPage = await searchAudit(database, { ...query, afterId })
    if (entries.length > 0) yield entries.map(FORMATS[format].line).join('')
    afterId = nextAfterId
  } while (afterId !== null)
}

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

function csvLine(entry: AuditEntry): string {
  const { detail, ...fields } = entryJson(entry)
  const shown = { by: detail['by'], name: detail['name'], address: detail['from'] }
  const cells = { ...fields, ...shown, detail: JSON.stringify(detail) }
  return `${COLUMNS.map(column => csvCell(cells[column])).join(',')}\r\n`
}

/** A spreadsheet takes such a cell for a formula; the apostrophe makes it a text. */
const FORMULA = /^[=+\-@\t\r\n]/

/** As RFC 4180, section 2, writes a field. */
function csvCell(value: unknown): string {
  const text = typeof value === 'string' ? value : ''
  const plain = FORMULA.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
