import type { KeyRecord } from '../../domain/key/key-record.ts'
import { type AuditEntry, type AuditValue, actionLabel, readChanges } from '../platform/audit/entries.ts'
import {
  copyable,
  exactInstantAndAgo,
  type Html,
  hintHtml,
  html,
  instant,
  markInvisible,
  nameHtml,
  type Piece,
} from '../platform/html/html.ts'
import { fact, type OpeningLine, openingLines } from '../platform/html/opening-lines.ts'
import { auditPath, keyPath } from '../platform/html/paths.ts'

export type KeysById = ReadonlyMap<string, { readonly record: KeyRecord }>

/** A line for each entry, which opens to all that it says. @param keys those that the entries are about, by id */
export function entryList(entries: readonly AuditEntry[], keys: KeysById, nowMs: number): Html {
  const lines = entries.map(entry => line(entry, keys.get(entry.keyId ?? '')?.record ?? null, nowMs))
  return openingLines('Audit entries, newest first', lines)
}

/** @param record as it is now; the name is that of the time */
function line(entry: AuditEntry, record: KeyRecord | null, nowMs: number): OpeningLine {
  const { atMs, action, actor, detail } = entry
  const by = asText(detail['by'])
  return {
    summary: [
      html`<span>${instant(atMs)}</span>`,
      html`<span><span class="badge ${action.replace('.', '-')}">${actionLabel(action)}</span></span>`,
      html`<span class="about">${about(entry)}${record === null ? null : html` ${hintHtml(record)}`}</span>`,
      html`<span class="about">${markInvisible(by === '' ? actor : by)}</span>`,
    ],
    facts: [
      fact('Time', exactInstantAndAgo(atMs, nowMs)),
      entry.workspaceId === null
        ? null
        : fact('Workspace', html`<a href="${auditPath(entry.workspaceId)}">${entry.workspaceId}</a>`),
      keyFact(entry),
      fact('Actor', html`${by === '' ? null : html`${markInvisible(by)}, `}${actorHtml(entry)}`),
      ...Object.entries(readChanges(entry)).map(([field, change]) =>
        fact(LABELS[field] ?? field, html`${valueText(change.old)} → ${valueText(change.new)}`),
      ),
      ...Object.entries(detail).map(([name, value]) =>
        isPlain(name, value) ? fact(LABELS[name] ?? name, detailHtml(entry, name, value)) : null,
      ),
      fact('Entry', copyable(`entry-${entry.id}`, entry.id)),
    ],
  }
}

/** As the field `Actor` of the search takes it. */
function actorHtml({ id, actor }: AuditEntry): Html {
  return actor.startsWith('token:')
    ? copyable(`actor-${id}`, actor)
    : html`<code>${markInvisible(actor)}</code>`
}

/** Ids that people look for elsewhere. */
const COPIED = new Set(['requestId', 'tokenId'])

function detailHtml({ id }: AuditEntry, name: string, value: AuditValue): Html {
  return COPIED.has(name) && typeof value === 'string' ? copyable(`${name}-${id}`, value) : valueText(value)
}

/** The key by its name of the time, the host of a webhook, or what else an entry is about. */
function about(entry: AuditEntry): Piece {
  const { keyId, detail } = entry
  const name = asText(detail['name'])
  if (keyId !== null) return html`<span class="key-name">${nameHtml({ name, id: keyId })}</span>`
  const { site } = readChanges(entry)
  if (site !== undefined) return markInvisible(asText(site.new ?? site.old))
  return name === '' ? null : markInvisible(name)
}

function keyFact({ workspaceId, keyId }: AuditEntry): Html | null {
  if (workspaceId === null || keyId === null) return null
  return fact('Key', html`<a href="${keyPath(workspaceId, keyId)}"><code>${keyId}</code></a>`)
}

/** Names that people read; others stand as the admin API has them. */
const LABELS: Readonly<Record<string, string>> = {
  from: 'Address',
  requestId: 'Request id',
  tokenId: 'Token id',
  site: 'Address of the webhook',
  reason: 'Reason',
  scopes: 'Scopes',
  expiresAt: 'Expires',
  description: 'Description',
  plan: 'Plan',
  overlapSeconds: 'Overlap, in s',
  successor: 'New key',
  successorExpiresAt: 'It expires',
}
/** They stand elsewhere. */
const SHOWN = new Set(['by', 'name', 'changes'])

function isPlain(name: string, value: AuditEntry['detail'][string]): value is AuditValue {
  return !SHOWN.has(name) && (typeof value !== 'object' || value === null || Array.isArray(value))
}

function valueText(value: AuditValue): Html {
  const text = typeof value === 'object' && value !== null ? value.join(', ') : String(value ?? '')
  return text === '' ? html`<span class="muted">none</span>` : markInvisible(text)
}

function asText(value: AuditEntry['detail'][string] | undefined): string {
  return typeof value === 'string' ? value : ''
}
