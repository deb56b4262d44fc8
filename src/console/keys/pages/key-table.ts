import { type Html, html } from '../../platform/html/html.ts'
import { hintHtml, keyLink } from '../../platform/html/key-names.ts'
import { keyPath, keysPath } from '../../platform/html/paths.ts'
import { cell } from '../../platform/html/table-cell.ts'
import { dateText } from '../../platform/html/times.ts'
import { KEY_ORDERS } from './key-list-query.ts'
import { expiryHtml, type KeyView, lastUsed, scopeList, stateBadge } from './key-parts.ts'
import type { KeysView } from './keys-view.ts'

export function keyTable({ workspaceId, keys, list }: KeysView, nowMs: number): Html {
  const hintOfKey = new Map(keys.map(({ record }) => [record.id, record.hint]))
  const showsWorkspace = workspaceId === null
  return html`<table class="stacks">
    <caption class="hidden">Keys. Order: ${KEY_ORDERS[list.sort]}</caption>
    <thead><tr><th scope="col">Name</th>${showsWorkspace ? html`<th scope="col">Workspace</th>` : null}<th scope="col">Hint</th><th scope="col">State</th><th scope="col">Scopes</th>
      <th scope="col">Created</th><th scope="col">Expires</th><th scope="col">Last used</th></tr></thead>
    <tbody>${keys.map(key => row(key, { hintOfKey, showsWorkspace, nowMs }))}</tbody>
  </table>`
}

interface RowContext {
  readonly hintOfKey: ReadonlyMap<string, string>
  readonly showsWorkspace: boolean
  readonly nowMs: number
}

function row(key: KeyView, { hintOfKey, showsWorkspace, nowMs }: RowContext): Html {
  const { record, state } = key
  const { workspaceId } = record
  const isDead = state === 'expired' || state === 'revoked'
  const workspace = html`<span class="breaks"><a href="${keysPath(workspaceId)}">${workspaceId}</a></span>`
  return html`<tr${isDead ? html` class="dead"` : null}>
    <th scope="row">${keyLink(key)}${replacedBy(key, hintOfKey)}</th>
    ${showsWorkspace ? cell('Workspace', workspace) : null}
    ${cell('Hint', hintHtml(record))}
    ${cell('State', stateBadge(key))}
    ${cell('Scopes', scopeList(record))}
    ${cell('Created', dateText(record.createdAtMs))}
    ${cell('Expires', expiryHtml(key, nowMs))}
    ${cell('Last used', lastUsed(key, nowMs))}
  </tr>`
}

/** Names the new key by its hint, or by its id if it is on another page. */
function replacedBy({ record, state }: KeyView, hintOfKey: ReadonlyMap<string, string>): Html | null {
  if (state !== 'retiring' || record.replacedBy === null) return null
  const name = hintOfKey.get(record.replacedBy) ?? record.replacedBy
  return html` <a class="small" href="${keyPath(record.workspaceId, record.replacedBy)}">Replaced by <code>${name}</code></a>`
}
