import { KEY_FILTERS, type KeyFilter } from '../../registry/database/key-filter.ts'
import { type Html, html, type Piece } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { FIND_KEY, keyPath, keysPath, newKeyPath, revokeAllPath } from '../layout/paths.ts'
import { dateText } from '../layout/times.ts'
import {
  expiryText,
  hintOf,
  isExpiring,
  type KeyView,
  keyLink,
  lastUsed,
  scopeList,
  stateBadge,
} from './key-parts.ts'

export interface KeysView {
  readonly workspaceId: string
  readonly keys: readonly KeyView[]
  /** Null for all. */
  readonly show: KeyFilter | null
  /** Where the next page starts; null on the last. */
  readonly nextCursor: string | null
  readonly isFirstPage: boolean
}

const FILTER_LABELS: Readonly<Record<KeyFilter, string>> = {
  active: 'Active',
  expiring: 'Expiring soon',
  retiring: 'Retiring',
  suspended: 'Suspended',
  expired: 'Expired',
  revoked: 'Revoked',
}

export function keysPage(frame: Frame, view: KeysView): Html {
  const { workspaceId, keys } = view
  const main = html`<div class="title">
      <h1>Keys</h1>
      <div class="actions"><a class="button" href="${FIND_KEY}">Find a key</a>
      ${frame.mayChange ? html`<a class="button primary" href="${newKeyPath(workspaceId)}">Issue a key</a>` : null}</div>
    </div>
    ${expiringNotice(frame, view)}
    ${filters(view)}
    ${keys.length === 0 ? emptyList(view) : table(keys, frame.nowMs)}
    ${paging(view)}
    ${frame.mayChange && keys.length > 0 ? html`<p class="small"><a href="${revokeAllPath(workspaceId)}">Revoke all keys of this workspace</a></p>` : null}`
  return page(frame, { title: 'Keys', section: 'keys', main })
}

function expiringNotice({ nowMs }: Frame, { workspaceId, keys, show }: KeysView): Html | null {
  const count = keys.filter(key => isExpiring(key, nowMs)).length
  if (count === 0 || show === 'expiring') return null
  const which = count === 1 ? 'One key on this page expires' : `${count} keys on this page expire`
  return html`<p class="notice warn"><strong>${which} within 14 days.</strong>
    <a href="${keysPath(workspaceId, { show: 'expiring' })}">Show expiring keys</a> and rotate them in time: requests with an expired key are rejected.</p>`
}

function filters({ workspaceId, show }: KeysView): Html {
  const link = (value: KeyFilter | null, label: string) => {
    const here = value === show ? html` aria-current="true"` : null
    return html`<li><a href="${keysPath(workspaceId, { show: value })}"${here}>${label}</a></li>`
  }
  return html`<nav class="filters" aria-label="Keys by state"><ul>
    ${link(null, 'All')}${KEY_FILTERS.map(filter => link(filter, FILTER_LABELS[filter]))}
  </ul></nav>`
}

function table(keys: readonly KeyView[], nowMs: number): Html {
  const hintOfKey = new Map(keys.map(({ record }) => [record.id, record.hint]))
  return html`<table class="stacks">
    <caption class="hidden">Keys, newest first</caption>
    <thead><tr><th scope="col">Name</th><th scope="col">Hint</th><th scope="col">State</th><th scope="col">Scopes</th>
      <th scope="col">Created</th><th scope="col">Expires</th><th scope="col">Last used</th></tr></thead>
    <tbody>${keys.map(key => row(key, hintOfKey, nowMs))}</tbody>
  </table>`
}

function row(key: KeyView, hintOfKey: ReadonlyMap<string, string>, nowMs: number): Html {
  const { record, state } = key
  const isDead = state === 'expired' || state === 'revoked'
  return html`<tr${isDead ? html` class="dead"` : null}>
    <th scope="row">${keyLink(key)}${replacedBy(key, hintOfKey)}</th>
    ${cell('Hint', hintOf(record))}
    ${cell('State', stateBadge(key))}
    ${cell('Scopes', scopeList(record))}
    ${cell('Created', dateText(record.createdAtMs))}
    ${cell('Expires', expiryText(key, nowMs))}
    ${cell('Last used', lastUsed(key, nowMs))}
  </tr>`
}

/** The label is shown where the table has no room for columns. */
function cell(label: string, content: Piece): Html {
  return html`<td><span class="label" aria-hidden="true">${label}</span><span>${content}</span></td>`
}

/** Names the new key by its hint, or by its id if it is on another page. */
function replacedBy({ record, state }: KeyView, hintOfKey: ReadonlyMap<string, string>): Html | null {
  if (state !== 'retiring' || record.replacedBy === null) return null
  const name = hintOfKey.get(record.replacedBy) ?? record.replacedBy
  return html` <a class="small" href="${keyPath(record.workspaceId, record.replacedBy)}">Replaced by <code>${name}</code></a>`
}

function emptyList({ workspaceId, show }: KeysView): Html {
  if (show !== null) return html`<p class="empty">No keys in this state.</p>`
  return html`<div class="empty">
    <h2>No keys yet</h2>
    <p>A key gives a program read access to this workspace through the API.</p>
    <a class="button primary" href="${newKeyPath(workspaceId)}">Issue the first key</a>
  </div>`
}

function paging({ workspaceId, show, nextCursor, isFirstPage }: KeysView): Html | null {
  if (isFirstPage && nextCursor === null) return null
  const first = html`<a class="button" href="${keysPath(workspaceId, { show })}">Newest keys</a>`
  return html`<nav class="paging" aria-label="Pages">
    ${isFirstPage ? null : first}
    ${nextCursor === null ? null : html`<a class="button" rel="next" href="${keysPath(workspaceId, { show, cursor: nextCursor })}">Older keys</a>`}
  </nav>`
}
