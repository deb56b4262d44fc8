import { isFinal } from '../../domain/key/key-record.ts'
import { hidden } from '../platform/html/form-parts.ts'
import { cell, dateText, type Html, hintHtml, html, keyLink, nameHtml } from '../platform/html/html.ts'
import type { Frame } from '../platform/html/layout.ts'
import { keyPath, keysPath, selectedKeysPath } from '../platform/html/paths.ts'
import { KEY_ORDERS, type KeyList, keyListPath, keyListQuery } from './key-list.ts'
import { expiryHtml, type KeyView, lastUsed, scopeList, stateBadge } from './key-view.ts'
import { type KeySort, parseOrder } from './search/key-query.ts'

export interface KeyTableView {
  /** Null: keys of all workspaces. */
  readonly workspaceId: string | null
  readonly keys: readonly KeyView[]
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
  const { workspaceId, keys, list, plans } = view
  const hintOfKey = new Map(keys.map(({ record }) => [record.id, record.hint]))
  const showsWorkspace = workspaceId === null
  const showsPlan = plans.length > 0 || keys.some(({ record }) => record.plan !== null)
  const shown = { hintOfKey, showsWorkspace, showsPlan, maySelect, nowMs }
  return html`<table class="stacks keys">
    <caption class="hidden">Keys. Order: ${KEY_ORDERS[list.sort]}</caption>
    <thead><tr>${sortedHead('Name', 'name', view)}${showsWorkspace ? html`<th scope="col">Workspace</th>` : null}<th scope="col">Hint</th><th scope="col">State</th><th scope="col">Scopes</th>${showsPlan ? html`<th scope="col">Plan</th>` : null}
      ${sortedHead('Created', 'createdAt', view)}${sortedHead('Expires', 'expiresAt', view)}${sortedHead('Last used', 'lastUsedAt', view)}</tr></thead>
    <tbody>${keys.map(key => row(key, shown))}</tbody>
  </table>`
}

interface RowContext {
  readonly hintOfKey: ReadonlyMap<string, string>
  readonly showsWorkspace: boolean
  readonly showsPlan: boolean
  readonly maySelect: boolean
  readonly nowMs: number
}

function row(key: KeyView, { hintOfKey, showsWorkspace, showsPlan, maySelect, nowMs }: RowContext): Html {
  const { record, state } = key
  const { workspaceId } = record
  const isDead = isFinal(state)
  const workspace = html`<span class="breaks"><a href="${keysPath(workspaceId)}">${workspaceId}</a></span>`
  return html`<tr${isDead ? html` class="dead"` : null}>
    <th scope="row"${maySelect ? html` class="picked"` : null}>${maySelect && !isDead ? box(key) : null}${keyLink(key)}${replacedBy(key, hintOfKey)}</th>
    ${showsWorkspace ? cell('Workspace', workspace) : null}
    ${cell('Hint', hintHtml(record), 'unnamed')}
    ${cell('State', stateBadge(key), 'unnamed')}
    ${cell('Scopes', scopeList(record), 'on-its-page')}
    ${showsPlan ? cell('Plan', record.plan ?? html`<span class="muted">none</span>`) : null}
    ${cell('Created', dateText(record.createdAtMs), 'on-its-page')}
    ${cell('Expires', expiryHtml(key, nowMs))}
    ${cell('Last used', lastUsed(key, nowMs))}
  </tr>`
}

function box({ record }: KeyView): Html {
  return html`<label class="pick"><input type="checkbox" name="key" value="${record.id}"><span class="hidden">Select ${nameHtml(record)}</span></label>`
}

/** Names the new key by its hint, or by its id if it is on another page. */
function replacedBy({ record, state }: KeyView, hintOfKey: ReadonlyMap<string, string>): Html | null {
  if (state !== 'retiring' || record.replacedBy === null) return null
  const name = hintOfKey.get(record.replacedBy) ?? record.replacedBy
  return html` <a class="small" href="${keyPath(record.workspaceId, record.replacedBy)}">Replaced by <code>${name}</code></a>`
}
