import type { AuditAction, AuditEntry } from '../../registry/operations/audit.ts'
import { type Html, html } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { markInvisible } from '../layout/mark-invisible.ts'
import { auditPath, deliveriesPath, keyPath } from '../layout/paths.ts'
import { ago, instant } from '../layout/times.ts'

export interface AuditView {
  readonly workspaceId: string
  readonly entries: readonly AuditEntry[]
  readonly nextCursor: string | null
  readonly isFirstPage: boolean
  /** Whether a webhook is configured. */
  readonly hasWebhook: boolean
}

export const ACTIONS: Readonly<Record<AuditAction, string>> = {
  'key.issued': 'Issued',
  'key.rotated': 'Rotated',
  'key.revoked': 'Revoked',
  'key.suspended': 'Suspended',
  'key.resumed': 'Resumed',
  'key.edited': 'Edited',
}

export function auditPage(frame: Frame, view: AuditView): Html {
  const { entries } = view
  const main = html`<h1>Audit trail</h1>
    <p class="lead">Who issued, rotated or revoked which key, and from which address. Entries cannot be changed or deleted.${
      view.hasWebhook ? html` <a href="${deliveriesPath(view.workspaceId)}">Webhook deliveries</a>` : null
    }</p>
    ${entries.length === 0 ? html`<p class="empty">No entries yet.</p>` : table(view, frame.nowMs)}
    ${paging(view)}`
  return page(frame, { title: 'Audit trail', section: 'audit', main })
}

function table({ entries }: AuditView, nowMs: number): Html {
  return html`<table class="stacks">
    <caption class="hidden">Audit entries, newest first</caption>
    <thead><tr><th scope="col">Time</th><th scope="col">Action</th><th scope="col">Key</th><th scope="col">Actor</th><th scope="col">Address</th></tr></thead>
    <tbody>${entries.map(entry => row(entry, nowMs))}</tbody>
  </table>`
}

function row({ atMs, action, workspaceId, keyId, actor, detail }: AuditEntry, nowMs: number): Html {
  const name = textOf(detail['name'])
  const by = textOf(detail['by'])
  return html`<tr>
    <th scope="row">${instant(atMs)} <span class="muted small">${ago(atMs, nowMs)}</span></th>
    <td><span class="label" aria-hidden="true">Action</span><span><span class="badge ${action.replace('.', '-')}">${ACTIONS[action]}</span></span></td>
    <td><span class="label" aria-hidden="true">Key</span><span><a class="key-name" href="${keyPath(workspaceId, keyId)}">${markInvisible(name === '' ? keyId : name)}</a></span></td>
    <td><span class="label" aria-hidden="true">Actor</span><span class="breaks">${by === '' ? markInvisible(actor) : html`${markInvisible(by)} <span class="muted small">${markInvisible(actor)}</span>`}</span></td>
    <td><span class="label" aria-hidden="true">Address</span><span><code>${textOf(detail['from'])}</code></span></td>
  </tr>`
}

function textOf(value: AuditEntry['detail'][string] | undefined): string {
  return typeof value === 'string' ? value : ''
}

function paging({ workspaceId, nextCursor, isFirstPage }: AuditView): Html | null {
  if (isFirstPage && nextCursor === null) return null
  return html`<nav class="paging" aria-label="Pages">
    ${isFirstPage ? null : html`<a class="button" href="${auditPath(workspaceId)}">Newest entries</a>`}
    ${nextCursor === null ? null : html`<a class="button" rel="next" href="${auditPath(workspaceId, nextCursor)}">Older entries</a>`}
  </nav>`
}
