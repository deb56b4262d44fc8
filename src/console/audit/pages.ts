import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { plainPasted } from '../../domain/form/text.ts'
import { isWorkspaceId, type KeyRecord, type KeysById } from '../../domain/key/key-record.ts'
import {
  AUDIT_ACTIONS,
  type AuditEntry,
  type AuditValue,
  actionLabel,
  isAuditAction,
  readChanges,
  WORKSPACE_AUDIT_ACTIONS,
} from '../platform/audit/entries.ts'
import {
  checkKeyId,
  checkSpan,
  downloads,
  filteredListRoutes,
  filterQuery,
  foldedFilters,
  keyIdInput,
  searchInput,
} from '../platform/html/filter-parts.ts'
import {
  type CheckedForm,
  errorSummary,
  type FormFields,
  NO_PROBLEMS,
  type Problems,
  select,
  textField,
} from '../platform/html/form-parts.ts'
import {
  actorName,
  copyable,
  exactInstantAndAgo,
  fact,
  type Html,
  hintHtml,
  html,
  instant,
  type ListPlace,
  markInvisible,
  nameHtml,
  type OpeningLine,
  openingLines,
  type Piece,
  pageLinks,
} from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { createFrame, readCursor, readQuery, sendPage } from '../platform/html/page-request.ts'
import { ALL_AUDIT, auditPath, keyPath, WORKSPACES } from '../platform/html/paths.ts'
import { ApiError } from '../platform/http/api-error.ts'
import { type FileFormat, ROWS_AT_ONCE, sendFile } from '../platform/http/send-file.ts'
import { entryJson } from './api.ts'
import { type AuditPage, type AuditQuery, type ReadableAudit, searchAudit } from './rows.ts'

const PAGE_SIZE = 50
const ORDER = { first: 'Newest entries', next: 'Older entries' }

export interface AuditPageParts {
  readonly database: ReadableAudit
  readonly keys: { findByIds(ids: readonly string[]): Promise<KeysById> }
  readonly clock: Clock
}

export function auditRoutes(scope: FastifyInstance, parts: AuditPageParts): void {
  filteredListRoutes(scope, {
    own: `${WORKSPACES}/:workspaceId/audit`,
    all: ALL_AUDIT,
    show: (...request) => showAudit(parts, ...request),
    sendFile: (...request) => sendAuditFile(parts.database, ...request),
  })
}

/** The entries that meet the conditions of the address, newest first. @param workspaceId null: of all workspaces */
async function showAudit(
  { database, keys, clock }: AuditPageParts,
  reply: FastifyReply,
  workspaceId: string | null,
): Promise<FastifyReply> {
  const cursor = readCursor(reply.request, 'audit')
  const form = readFilterForm(readQuery(reply.request))
  const frame = createFrame(reply, { workspaceId, clock })
  const checked = checkFilterForm(form, workspaceId)
  if (!checked.ok) return sendPage(reply, problemsPage(frame, { workspaceId, form }, checked.problems), 422)
  const query = { ...checked.request, limit: PAGE_SIZE, afterId: cursor }
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
    ${entries.length === 0 ? emptyList(view) : html`${entryList(entries, view.keys, frame.nowMs)}${downloads(form, 'entries', auditPath(workspaceId))}`}
    ${pageLinks(view, cursor => auditPath(workspaceId, { ...filterQuery(form), cursor }), ORDER)}`
  return page(frame, { title: 'Audit log', section: 'audit', main })
}

function heading({ workspaceId }: Pick<AuditView, 'workspaceId'>): string {
  return workspaceId === null ? 'Audit log of all workspaces' : 'Audit log'
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
  return page(frame, { title: 'Audit log', section: 'audit', main, isWrong: true })
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

const MAX_ACTOR_LENGTH = 300

/** Conditions on entries as they stand in the address; empty for none. The workspace is one where entries of all are shown. */
type FilterForm = Readonly<Record<'workspace' | 'action' | 'keyId' | 'actor' | 'from' | 'to', string>>

export function readFilterForm(query: FormFields): FilterForm {
  return {
    workspace: plainPasted(textField(query, 'workspace')),
    action: textField(query, 'action'),
    keyId: plainPasted(textField(query, 'keyId')),
    actor: textField(query, 'actor').trim(),
    from: textField(query, 'from'),
    to: textField(query, 'to'),
  }
}

type AuditConditions = Pick<AuditQuery, 'filter' | 'workspaces'>

/** @param workspaceId null: of all workspaces, or of the one that the form names */
function checkFilterForm(
  { workspace, action, keyId, actor, from, to }: FilterForm,
  workspaceId: string | null,
): CheckedForm<AuditConditions> {
  const problems = new Map<string, string>()
  const only = workspaceId ?? (workspace === '' ? null : workspace)
  if (only !== null && !isWorkspaceId(only))
    problems.set('workspace', 'Enter the id of a workspace, such as ws_1')
  if (action !== '' && !isAuditAction(action)) problems.set('action', 'Choose one of these actions')
  checkKeyId(keyId, problems)
  if (actor.length > MAX_ACTOR_LENGTH) problems.set('actor', `Enter at most ${MAX_ACTOR_LENGTH} characters`)
  const span = checkSpan({ from, to }, problems)
  if (problems.size > 0) return { ok: false, problems }
  const chosen = action !== '' && isAuditAction(action) ? { action } : {}
  const filter = { ...chosen, keyId: keyId || undefined, actor: actor || undefined, ...span }
  return { ok: true, request: { filter, workspaces: only === null ? null : [only] } }
}

/** A form whose response is at an address that can be shared. */
export function filterForm(workspaceId: string | null, form: FilterForm, problems: Problems): Html {
  const ofAll = workspaceId === null
  const actions = [{ value: '', label: 'Any' }, ...(ofAll ? AUDIT_ACTIONS : WORKSPACE_AUDIT_ACTIONS)]
  const action = select({ name: 'action', label: 'Action', value: form.action, options: actions, problems })
  const workspace = { name: 'workspace', label: 'Workspace' }
  const actor = searchInput(
    { name: 'actor', label: 'Actor' },
    form,
    problems,
    html`maxlength="${MAX_ACTOR_LENGTH}" placeholder="person:…"`,
  )
  return html`<form class="search" role="search" method="get" action="${auditPath(workspaceId)}" novalidate data-submits>
    ${ofAll ? searchInput(workspace, form, problems, html`maxlength="128" placeholder="ws_1"`) : null}
    ${keyIdInput(form, problems)}
    ${foldedFilters({ actor, action }, form, problems)}
    <button>Filter</button>
  </form>`
}

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
      html`<span class="about">${actorName(actor, by)}</span>`,
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
function sendAuditFile(
  database: ReadableAudit,
  reply: FastifyReply,
  workspaceId: string | null,
  format: FileFormat,
): FastifyReply {
  const checked = checkFilterForm(readFilterForm(readQuery(reply.request)), workspaceId)
  if (!checked.ok) throw new ApiError('invalid_request', [...checked.problems.values()].join('. '))
  const file = {
    name: `audit${workspaceId === null ? '' : `-${workspaceId}`}`,
    columns: COLUMNS,
    toCells: entryCells,
    toJson: entryJson,
    readParts: () => readEntries(database, checked.request),
  }
  return sendFile(reply, file, format)
}

/** Entries that are added meanwhile are left out. */
async function* readEntries(
  database: ReadableAudit,
  conditions: AuditConditions,
): AsyncGenerator<readonly AuditEntry[]> {
  let afterId: string | null = null
  do {
    const query = { ...conditions, limit: ROWS_AT_ONCE, afterId }
    const { entries, nextAfterId }: AuditPage = await searchAudit(database, query)
    yield entries
    afterId = nextAfterId
  } while (afterId !== null)
}

function entryCells(entry: AuditEntry): Record<(typeof COLUMNS)[number], unknown> {
  const { detail, ...fields } = entryJson(entry)
  const shown = { by: detail['by'], name: detail['name'], address: detail['from'] }
  return { ...fields, ...shown, detail: JSON.stringify(detail) }
}
