import { type Html, html } from '../../platform/html/html.ts'
import { type Frame, page } from '../../platform/html/layout.ts'
import { FIND_KEY, keysPath, newKeyPath, revokeAllPath } from '../../platform/html/paths.ts'
import type { KeyFilter } from '../rows/key-filter.ts'
import { MAX_EXPIRING } from '../search/count-in-workspace.ts'
import { keySearch, stateFilters } from './key-list-parts.ts'
import { isFiltered, keyListPath } from './key-list-query.ts'
import { keyTable } from './key-table.ts'
import type { KeysView } from './keys-view.ts'

export function keysPage(frame: Frame, view: KeysView): Html {
  const { workspaceId, keys } = view
  const isEmpty = keys.length === 0 && !isFiltered(view.list) && view.isFirstPage
  const main = html`<div class="title">
      <h1>${workspaceId === null ? 'Keys of all workspaces' : 'Keys'}</h1>
      <div class="actions"><a class="button" href="${FIND_KEY}">Find a key</a>
      ${workspaceId !== null && frame.mayChange ? html`<a class="button primary" href="${newKeyPath(workspaceId)}">Issue a key</a>` : null}</div>
    </div>
    ${expiringNotice(view)}
    ${isEmpty ? null : keySearch(view)}
    ${isEmpty ? null : stateFilters(view)}
    ${isEmpty ? emptyList(frame, view) : results(view, frame.nowMs)}
    ${paging(view)}
    ${workspaceId !== null && frame.mayChange && !isEmpty ? html`<p class="small"><a href="${revokeAllPath(workspaceId)}">Revoke all keys of this workspace</a></p>` : null}`
  return page(frame, { title: 'Keys', section: workspaceId === null ? null : 'keys', main })
}

function expiringNotice({ workspaceId, counts, list }: KeysView): Html | null {
  const count = counts?.expiringSoon ?? 0
  if (count === 0 || list.state === 'expiring') return null
  const number = count > MAX_EXPIRING ? `More than ${MAX_EXPIRING}` : String(count)
  const which = count === 1 ? 'One key expires' : `${number} keys expire`
  const state: KeyFilter = 'expiring'
  return html`<p class="notice warn"><strong>${which} within 14 days.</strong>
    <a href="${keyListPath(workspaceId, { state })}">Show expiring keys</a> and rotate them in time: requests with an expired key are rejected.</p>`
}

function results(view: KeysView, nowMs: number): Html {
  const { keys, matches, nextCursor } = view
  if (keys.length > 0) {
    return html`${matches === null ? null : html`<p class="muted" role="status">${matches === 1 ? '1 key matches' : `${matches} keys match`}</p>`}
      ${keyTable(view, nowMs)}`
  }
  return nextCursor === null
    ? html`<p class="empty">No key matches. <a href="${keysPath(view.workspaceId)}">Show all keys</a></p>`
    : html`<p class="empty">No match among the keys examined so far. “Next page” continues the search.</p>`
}

function emptyList({ mayChange }: Frame, { workspaceId }: KeysView): Html {
  if (workspaceId === null) return html`<p class="empty">No workspace has a key yet.</p>`
  return html`<div class="empty">
    <h2>No keys yet</h2>
    <p>A key gives a program read access to this workspace through the API.</p>
    ${mayChange ? html`<a class="button primary" href="${newKeyPath(workspaceId)}">Issue the first key</a>` : null}
  </div>`
}

function paging({ workspaceId, list, nextCursor, isFirstPage }: KeysView): Html | null {
  if (isFirstPage && nextCursor === null) return null
  return html`<nav class="paging" aria-label="Pages">
    ${isFirstPage ? null : html`<a class="button" href="${keyListPath(workspaceId, list)}">First page</a>`}
    ${nextCursor === null ? null : html`<a class="button" rel="next" href="${keyListPath(workspaceId, { ...list, cursor: nextCursor })}">Next page</a>`}
  </nav>`
}
