import {
  type AuditChanges,
  type AuditEntry,
  type AuditValue,
  actionLabel,
  changesOf,
} from '../../platform/audit/entries.ts'
import { type Html, html, type Piece } from '../../platform/html/html.ts'
import { markInvisible } from '../../platform/html/mark-invisible.ts'
import { ago, instantText } from '../../platform/html/times.ts'
import { actorName } from './key-parts.ts'

const FIELDS: Readonly<Record<string, string>> = {
  name: 'Name',
  description: 'Description',
  expiresAt: 'Expires',
  allowedCidrs: 'Allowed addresses',
}

/** Lists changes, each with its time and the person who made it. */
export function changeList(entries: readonly AuditEntry[], nowMs: number): Html {
  return html`<ul>${entries.map(entry => item(entry, nowMs))}</ul>`
}

function item(entry: AuditEntry, nowMs: number): Html {
  const { action, actor, atMs, detail } = entry
  const by = detail['by']
  return html`<li>${actionLabel(action)} by ${actorName(actor, typeof by === 'string' ? by : null)} ${ago(atMs, nowMs)}${fields(changesOf(entry))}</li>`
}

function fields(changes: AuditChanges): Piece {
  const items = Object.entries(changes).map(
    ([field, change]) =>
      html`<li>${FIELDS[field] ?? field}: ${valueText(field, change.old)} became ${valueText(field, change.new)}</li>`,
  )
  return items.length === 0 ? null : html`<ul>${items}</ul>`
}

function valueText(field: string, value: AuditValue): Piece {
  if (value === null || value === '') return 'empty'
  if (field === 'expiresAt') return instantText(Date.parse(String(value)))
  if (typeof value === 'string' || typeof value === 'number') return html`“${markInvisible(String(value))}”`
  return value.length === 0 ? 'every address' : value.join(', ')
}
