import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import { type AuditEntry, actionLabel } from '../platform/audit/entries.ts'
import { ago, type Html, hintHtml, html, instant, markInvisible, nameHtml } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { createFrame, readCursor, requireWorkspace, sendPage } from '../platform/html/page-request.ts'
import { auditPath, keyPath } from '../platform/html/paths.ts'
import { type ReadableAudit, searchAudit } from './rows.ts'

const PAGE_SIZE = 50

type KeysById = ReadonlyMap<string, { readonly record: KeyRecord }>

export interface AuditPageParts {
  readonly database: ReadableAudit
  readonly keys: { findByIds(ids: readonly string[]): Promise<KeysById> }
  readonly clock: Clock
}

/** The entries of a workspace, newest first. */
export async function showAudit(
  { database, keys, clock }: AuditPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const workspaceId = requireWorkspace(request)
  const cursor = readCursor(request)
  const query = { filter: {}, workspaces: [workspaceId], limit: PAGE_SIZE, afterId: cursor }
  const { entries, nextAfterId } = await searchAudit(database, query)
  const frame = createFrame(request, reply, { workspaceId, clock })
  const keysOfEntries = await keys.findByIds(entries.flatMap(({ keyId }) => keyId ?? []))
  const paging = { nextCursor: nextAfterId, isFirstPage: cursor === null }
  return sendPage(reply, auditPage(frame, { workspaceId, entries, keys: keysOfEntries, ...paging }))
}

interface AuditView {
  readonly workspaceId: string
  readonly entries: readonly AuditEntry[]
  readonly nextCursor: string | null
  readonly isFirstPage: boolean
  /** Those that the entries are about, by id. */
  readonly keys: KeysById
}

function auditPage(frame: Frame, view: AuditView): Html {
  const { entries } = view
  const main = html`<h1>Audit trail</h1>
    <p class="lead">Who issued or changed which key, and from which address. Entries cannot be changed or deleted.</p>
    ${entries.length === 0 ? html`<p class="empty">No entries yet.</p>` : table(view, frame.nowMs)}
    ${paging(view)}`
  return page(frame, { title: 'Audit trail', section: 'audit', main })
}

function table({ entries, keys }: AuditView, nowMs: number): Html {
  return html`<table class="stacks">
    <caption class="hidden">Audit entries, newest first</caption>
    <thead><tr><th scope="col">Time</th><th scope="col">Action</th><th scope="col">Key</th><th scope="col">Actor</th><th scope="col">Address</th></tr></thead>
    <tbody>${entries.map(entry => row(entry, keys.get(entry.keyId ?? '')?.record ?? null, nowMs))}</tbody>
  </table>`
}

/** @param record as it is now; the name is that of the time */
function row(entry: AuditEntry, record: KeyRecord | null, nowMs: number): Html {
  const { atMs, action, actor, detail } = entry
  const by = asText(detail['by'])
  return html`<tr>
    <th scope="row">${instant(atMs)} <span class="muted small">${ago(atMs, nowMs)}</span></th>
    <td><span class="label" aria-hidden="true">Action</span><span><span class="badge ${action.replace('.', '-')}">${actionLabel(action)}</span></span></td>
    <td><span class="label" aria-hidden="true">Key</span><span>${keyLink(entry)}${record === null ? null : html` ${hintHtml(record)}`}</span></td>
    <td><span class="label" aria-hidden="true">Actor</span><span class="breaks">${by === '' ? markInvisible(actor) : html`${markInvisible(by)} <span class="muted small">${markInvisible(actor)}</span>`}</span></td>
    <td><span class="label" aria-hidden="true">Address</span><span><code>${asText(detail['from'])}</code></span></td>
  </tr>`
}

function keyLink({ workspaceId, keyId, detail }: AuditEntry): Html | null {
  if (workspaceId === null || keyId === null) return null
  return html`<a class="key-name" href="${keyPath(workspaceId, keyId)}">${nameHtml({ name: asText(detail['name']), id: keyId })}</a>`
}

function asText(value: AuditEntry['detail'][string] | undefined): string {
  return typeof value === 'string' ? value : ''
}

function paging({ workspaceId, nextCursor, isFirstPage }: AuditView): Html | null {
  if (isFirstPage && nextCursor === null) return null
  return html`<nav class="paging" aria-label="Pages">
    ${isFirstPage ? null : html`<a class="button" href="${auditPath(workspaceId)}">Newest entries</a>`}
    ${nextCursor === null ? null : html`<a class="button" rel="next" href="${auditPath(workspaceId, nextCursor)}">Older entries</a>`}
  </nav>`
}
