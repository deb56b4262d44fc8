import { isFinal, type KeyRecord } from '../../domain/key/key-record.ts'
import { type FormFields, hidden, searchText, textField } from '../platform/html/form-parts.ts'
import {
  cell,
  dateText,
  type Html,
  hintHtml,
  html,
  keyLink,
  lastUsed,
  nameHtml,
} from '../platform/html/html.ts'
import type { Frame } from '../platform/html/layout.ts'
import {
  keyPath,
  keysPath,
  selectedKeysPath,
  UNUSED_FILTERS,
  UNUSED_NAMES,
  type UnusedFilter,
} from '../platform/html/paths.ts'
import { expiryHtml, type KeyView, scopeList, stateBadge } from './key-view.ts'
import {
  decodeCursor,
  EXPIRING_SOON_MS,
  KEY_FILTERS,
  type KeyFilter,
  type KeyQuery,
  type KeySort,
  parseOrder,
} from './search/key-query.ts'

const PAGE_SIZE = 50
/** Of a key that has many: its page shows all. */
const SCOPES_SHOWN = 2
const DAY_MS = 86_400_000

/** Orders of the list: the query parameter, and what people read. */
export const KEY_ORDERS = {
  '-createdAt': 'Newest first',
  createdAt: 'Oldest first',
  expiresAt: 'Expiring first',
  '-expiresAt': 'Expiring last first',
  '-lastUsedAt': 'Recently used first',
  lastUsedAt: 'Unused for longest first',
  name: 'Name, A to Z',
  '-name': 'Name, Z to A',
} as const
type KeyOrder = keyof typeof KEY_ORDERS

/** The order where none is chosen. */
export function usualOrder(state: string | null): KeyOrder {
  return state === 'expiring' ? 'expiresAt' : '-createdAt'
}

/** What the list shows, as the URL says. */
interface KeyList {
  /** Part of the name, description, hint or id; empty for any. */
  readonly q: string
  readonly state: KeyFilter | null
  readonly scope: string | null
  readonly plan: string | null
  readonly unused: UnusedFilter | null
  readonly sort: KeyOrder
}

/** Scopes and plans of the settings. */
export interface KnownNames {
  readonly scopes: readonly string[]
  readonly plans: readonly string[]
}

/** A parameter that is unknown or malformed counts as absent. */
export function readKeyList(query: FormFields, { scopes, plans }: KnownNames): KeyList {
  const state = textField(query, 'state')
  const scope = textField(query, 'scope')
  const plan = textField(query, 'plan')
  const unused = textField(query, 'unused')
  const sort = textField(query, 'sort')
  const filter = KEY_FILTERS.find(name => name === state) ?? null
  const order = Object.keys(KEY_ORDERS).find(isOrder => isOrder === sort)
  return {
    q: searchText(textField(query, 'q')),
    state: filter,
    scope: scopes.includes(scope) ? scope : null,
    plan: plans.includes(plan) ? plan : null,
    unused: UNUSED_NAMES.find(name => name === unused) ?? null,
    // Found among the keys of the list.
    sort: (order as KeyOrder | undefined) ?? usualOrder(filter),
  }
}

export function isFiltered({ q, state, scope, plan, unused }: KeyList): boolean {
  return q !== '' || state !== null || scope !== null || plan !== null || unused !== null
}

/** @param cursor of an earlier page; the first page if it is malformed or of another order */
export function createKeyQuery(
  list: KeyList,
  { workspaceId, cursor, nowMs }: { workspaceId: string | null; cursor: string; nowMs: number },
): KeyQuery {
  const order = parseOrder(list.sort)
  if (order === null) throw new Error(`KEY_ORDERS has an unknown order: ${list.sort}`)
  return {
    workspaceIds: workspaceId === null ? null : [workspaceId],
    state: list.state === 'expiring' ? 'active' : list.state,
    text: list.q === '' ? null : list.q,
    scope: list.scope,
    plan: list.plan,
    expiresBeforeMs: list.state === 'expiring' ? nowMs + EXPIRING_SOON_MS + 1 : null,
    ...unusedTimes(list.unused, nowMs),
    ...order,
    limit: PAGE_SIZE,
    after: cursor === '' ? null : decodeCursor(order, cursor),
  }
}

/** A key that was never used was last used at 0. One that is younger than the days may be about to be used. */
function unusedTimes(
  unused: UnusedFilter | null,
  nowMs: number,
): Pick<KeyQuery, 'createdBeforeMs' | 'lastUsedBeforeMs'> {
  if (unused === null) return { createdBeforeMs: null, lastUsedBeforeMs: null }
  const { days } = UNUSED_FILTERS[unused]
  if (days === null) return { createdBeforeMs: null, lastUsedBeforeMs: 1 }
  const beforeMs = nowMs - days * DAY_MS
  return { createdBeforeMs: beforeMs, lastUsedBeforeMs: beforeMs }
}

/** The list's part of an address. */
type KeyListQuery = Partial<Record<keyof KeyList, string | null>> & {
  readonly cursor?: string | undefined
}

export function keyListQuery({ cursor, ...list }: KeyListQuery): Readonly<Record<string, string | null>> {
  const isDefault = list.sort === usualOrder(list.state ?? null)
  const query = { ...list, sort: isDefault ? null : list.sort, cursor }
  const present = Object.entries(query).map(([name, value]) => [name, value === '' ? null : (value ?? null)])
  return Object.fromEntries(present)
}

/** @param workspaceId null: keys of all workspaces */
export function keyListPath(workspaceId: string | null, query: KeyListQuery): string {
  return keysPath(workspaceId, keyListQuery(query))
}

export interface KeyTableView {
  /** Null: keys of all workspaces. */
  readonly workspaceId: string | null
  readonly keys: readonly KeyView[]
  /** By id, those that replace a key of this page, as far as they exist in its workspace. */
  readonly successors: ReadonlyMap<string, KeyRecord>
  readonly list: KeyList
  /** Where this page starts; empty for the first. */
  readonly cursor: string
  /** Those of the settings. */
  readonly plans: readonly string[]
}

/** Keys with boxes to select some of them, for people who may change them. */
export function keyTable(frame: Frame, view: KeyTableView): Html {
  const { workspaceId, list, cursor } = view
  const maySelect = workspaceId === null ? frame.isAdministrator : frame.mayChange
  if (!maySelect || view.keys.every(({ state }) => isFinal(state))) return table(view, frame.nowMs, false)
  const path = selectedKeysPath(workspaceId, keyListQuery({ ...list, cursor }))
  return html`<form class="selection" method="post" action="${path}">
    ${hidden({ _csrf: frame.csrfToken })}
    ${table(view, frame.nowMs, true)}
    <div class="bar" role="group" aria-label="Selected keys">
      <label class="pick" hidden><input type="checkbox" data-selects> All of this page</label>
      <span class="muted" role="status" data-selected>Selected keys:</span>
      <button name="step" value="suspend">Suspend</button>
      <button name="step" value="resume">Resume</button>
      <button name="step" value="revoke">Revoke</button>
    </div>
  </form>`
}

/** The first order of a column by which an index holds the keys: these alone can be paged through cheaply. */
const FIRST_ORDERS = {
  name: 'name',
  createdAt: '-createdAt',
  expiresAt: 'expiresAt',
  lastUsedAt: '-lastUsedAt',
} as const satisfies Readonly<Record<KeySort, string>>

/** A head that orders the list by its column, and in the opposite order where that is so already. */
function sortedHead(label: string, column: KeySort, { workspaceId, list }: KeyTableView): Html {
  const order = parseOrder(list.sort)
  const isHere = order?.sort === column
  const opposite = order?.descending === true ? column : `-${column}`
  const path = keyListPath(workspaceId, { ...list, sort: isHere ? opposite : FIRST_ORDERS[column] })
  const direction = order?.descending === true ? 'descending' : 'ascending'
  return html`<th scope="col"${isHere ? html` aria-sort="${direction}"` : null}><a href="${path}">${label}</a></th>`
}

function table(view: KeyTableView, nowMs: number, maySelect: boolean): Html {
  const { workspaceId, keys, successors, list, plans } = view
  const showsWorkspace = workspaceId === null
  const showsPlan = plans.length > 0 || keys.some(({ record }) => record.plan !== null)
  const shown = { successors, showsWorkspace, showsPlan, maySelect, nowMs }
  return html`<table class="stacks keys">
    <caption class="hidden">Keys. Order: ${KEY_ORDERS[list.sort]}</caption>
    <thead><tr>${sortedHead('Name', 'name', view)}${showsWorkspace ? html`<th scope="col">Workspace</th>` : null}<th scope="col">Hint</th><th scope="col">State</th><th scope="col">Scopes</th>${showsPlan ? html`<th scope="col">Plan</th>` : null}
      ${sortedHead('Created', 'createdAt', view)}${sortedHead('Expires', 'expiresAt', view)}${sortedHead('Last used', 'lastUsedAt', view)}</tr></thead>
    <tbody>${keys.map(key => row(key, shown))}</tbody>
  </table>`
}

interface RowContext {
  readonly successors: ReadonlyMap<string, KeyRecord>
  readonly showsWorkspace: boolean
  readonly showsPlan: boolean
  readonly maySelect: boolean
  readonly nowMs: number
}

function row(key: KeyView, { successors, showsWorkspace, showsPlan, maySelect, nowMs }: RowContext): Html {
  const { record, state } = key
  const { workspaceId } = record
  const isDead = isFinal(state)
  const workspace = html`<span class="breaks"><a href="${keysPath(workspaceId)}">${workspaceId}</a></span>`
  return html`<tr${isDead ? html` class="dead"` : null}>
    <th scope="row"${maySelect ? html` class="picked"` : null}>${maySelect && !isDead ? box(key) : null}${keyLink(key)}${replacedBy(key, successors)}</th>
    ${showsWorkspace ? cell('Workspace', workspace) : null}
    ${cell('Hint', hintHtml(record), 'unnamed')}
    ${cell('State', stateBadge(key), 'unnamed')}
    ${cell('Scopes', scopeList(record, SCOPES_SHOWN), 'on-its-page')}
    ${showsPlan ? cell('Plan', record.plan ?? html`<span class="muted">none</span>`) : null}
    ${cell('Created', dateText(record.createdAtMs), 'on-its-page')}
    ${cell('Expires', expiryHtml(key, nowMs), isDead ? 'unnamed' : null)}
    ${cell('Last used', lastUsed(key, nowMs))}
  </tr>`
}

function box({ record }: KeyView): Html {
  return html`<label class="pick"><input type="checkbox" name="key" value="${record.id}"><span class="hidden">Select ${nameHtml(record)}</span></label>`
}

function replacedBy({ record, state }: KeyView, successors: ReadonlyMap<string, KeyRecord>): Html | null {
  if (state !== 'retiring' || record.replacedBy === null) return null
  const successor = successors.get(record.replacedBy)
  // An import may name any id.
  if (successor?.workspaceId !== record.workspaceId) {
    return html` <span class="small muted">Replaced by a key that was not imported</span>`
  }
  return html` <a class="small" href="${keyPath(successor.workspaceId, successor.id)}">Replaced by <code>${successor.hint}</code></a>`
}
