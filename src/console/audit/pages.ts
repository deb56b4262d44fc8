import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import type { AuditEntry } from '../platform/audit/entries.ts'
import { downloads, filterQuery } from '../platform/html/filter-parts.ts'
import { errorSummary, NO_PROBLEMS, type Problems } from '../platform/html/form-parts.ts'
import { type Html, html, type ListPlace, pageLinks } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { createFrame, readCursor, readQuery, sendPage } from '../platform/html/page-request.ts'
import { auditFilePath, auditPath, FIND_KEY, keyPath } from '../platform/html/paths.ts'
import { entryList, type KeysById } from './entry-list.ts'
import { checkFilterForm, type FilterForm, filterForm, holdsKey, readFilterForm } from './filter-form.ts'
import { type ReadableAudit, searchAudit } from './rows.ts'

const PAGE_SIZE = 50
const ORDER = { first: 'Newest entries', next: 'Older entries' }

export interface AuditPageParts {
  readonly database: ReadableAudit
  readonly keys: { findByIds(ids: readonly string[]): Promise<KeysById> }
  readonly clock: Clock
  readonly keyPrefix: string
}

/** The entries that meet the conditions of the address, newest first. @param workspaceId null: of all workspaces */
export async function showAudit(
  { database, keys, clock, keyPrefix }: AuditPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  workspaceId: string | null,
): Promise<FastifyReply> {
  const cursor = readCursor(request, 'audit')
  const form = readFilterForm(readQuery(request))
  // A redirect leaves no entry in the browser's history.
  if (holdsKey(form, keyPrefix)) return reply.redirect(FIND_KEY, 303)
  const frame = createFrame(request, reply, { workspaceId, clock })
  const checked = checkFilterForm(form, workspaceId)
  if (!checked.ok) return sendPage(reply, problemsPage(frame, { workspaceId, form }, checked.problems), 422)
  const query = { filter: checked.filter, workspaces: checked.workspaces, limit: PAGE_SIZE, afterId: cursor }
  const { entries, nextAfterId } = await searchAudit(database, query)
  const keysOfEntries = await keys.findByIds(entries.flatMap(({ keyId }) => keyId ?? []))
  const paging = { nextCursor: nextAfterId, isFirstPage: cursor === null }
  return sendPage(reply, auditPage(frame, { workspaceId, form, entries, keys: keysOfEntries, ...paging }))
}

interface AuditView extends ListPlace {
  /** Null: entries of all workspaces. */
  readonly workspaceId: string | null
  readonly form: FilterForm
  readonly entries: readonly AuditEntry[]
  /** Those that the entries are about, by id. */
  readonly keys: KeysById
}

function auditPage(frame: Frame, view: AuditView): Html {
  const { workspaceId, form, entries } = view
  const main = html`${backToKey(view)}
    <h1>${heading(view)}</h1>
    <p class="lead">Who issued or changed which key, and from which address. Entries cannot be changed or deleted.</p>
    ${filterForm(workspaceId, form, NO_PROBLEMS)}
    ${entries.length === 0 ? emptyList(view) : html`${entryList(entries, view.keys, frame.nowMs)}${files(view)}`}
    ${pageLinks(view, cursor => auditPath(workspaceId, { ...filterQuery(form), cursor }), ORDER)}`
  return page(frame, { title: 'Audit trail', section: 'audit', main })
}

function heading({ workspaceId }: Pick<AuditView, 'workspaceId'>): string {
  return workspaceId === null ? 'Audit trail of all workspaces' : 'Audit trail'
}

/** With the conditions as they were sent. */
function problemsPage(
  frame: Frame,
  { workspaceId, form }: Pick<AuditView, 'workspaceId' | 'form'>,
  problems: Problems,
): Html {
  const main = html`<h1>${heading({ workspaceId })}</h1>
    ${errorSummary(problems)}
    ${filterForm(workspaceId, form, problems)}`
  return page(frame, { title: 'Error: Audit trail', section: 'audit', main })
}

/** Only where an entry shows that the key is of this workspace. */
function backToKey({ workspaceId, form: { keyId }, entries }: AuditView): Html | null {
  if (workspaceId === null || keyId === '' || entries.length === 0) return null
  return html`<p class="back"><a href="${keyPath(workspaceId, keyId)}">Key</a></p>`
}

function emptyList({ workspaceId, form, nextCursor, isFirstPage }: AuditView): Html {
  if (nextCursor !== null) {
    return html`<p class="empty">No match among the entries examined so far. “Older entries” continues the search.</p>`
  }
  const isFiltered = Object.keys(filterQuery(form)).length > 0
  if (!isFiltered) return html`<p class="empty">${isFirstPage ? 'No entries yet.' : 'No older entries.'}</p>`
  return html`<p class="empty">No entry matches. <a href="${auditPath(workspaceId)}">Show all entries</a></p>`
}

function files({ workspaceId, form }: AuditView): Html {
  return downloads(form, {
    ...{ items: 'entries', path: auditPath(workspaceId) },
    filePath: (format, query) => auditFilePath(workspaceId, format, query),
  })
}
