import { select } from '../../platform/html/form-parts.ts'
import { type Html, html } from '../../platform/html/html.ts'
import { ALL_KEYS, keysPath, UNUSED_FILTERS, UNUSED_NAMES } from '../../platform/html/paths.ts'
import { KEY_FILTERS, type KeyFilter } from '../rows/key-filter.ts'
import { MAX_EXPIRING, type WorkspaceKeyCounts } from '../search/count-in-workspace.ts'
import { KEY_ORDERS, keyListPath } from './key-list-query.ts'
import type { KeysView } from './keys-view.ts'

const FILTER_LABELS: Readonly<Record<KeyFilter, string>> = {
  active: 'Active',
  expiring: 'Expiring soon',
  retiring: 'Retiring',
  suspended: 'Suspended',
  expired: 'Expired',
  revoked: 'Revoked',
}

/** A form whose response is at a URL. */
export function keySearch({ workspaceId, list, scopes }: KeysView): Html {
  const { q, state, scope, unused, sort } = list
  const options = scopes.map(name => ({ value: name, label: name }))
  const uses = UNUSED_NAMES.map(value => ({ value, label: UNUSED_FILTERS[value].label }))
  const orders = Object.entries(KEY_ORDERS).map(([value, label]) => ({ value, label }))
  return html`<form class="search" role="search" method="get" action="${workspaceId === null ? ALL_KEYS : keysPath(workspaceId)}">
    ${state === null ? null : html`<input type="hidden" name="state" value="${state}">`}
    <div class="field"><label for="q">Search</label>
      <input type="search" id="q" name="q" value="${q}" maxlength="100" autocomplete="off" spellcheck="false" placeholder="Name, description, hint or id"></div>
    ${select({ name: 'scope', label: 'Scope', value: scope ?? '', options: [{ value: '', label: 'Any' }, ...options] })}
    ${select({ name: 'unused', label: 'Used', value: unused ?? '', options: [{ value: '', label: 'Any' }, ...uses] })}
    ${select({ name: 'sort', label: 'Order', value: sort, options: orders })}
    <button>Search</button>
  </form>`
}

/** Links that keep the rest of the search. */
export function stateFilters({ workspaceId, list, counts }: KeysView): Html {
  const link = (state: KeyFilter | null, label: string) => {
    const here = state === list.state ? html` aria-current="true"` : null
    // The order that suits expiring keys is not kept for others.
    const sort = list.state === 'expiring' || state === 'expiring' ? null : list.sort
    const path = keyListPath(workspaceId, { ...list, sort, state })
    const count = counts === null ? null : countOf(state, counts)
    return html`<li><a href="${path}"${here}>${label}${count === null ? null : html` <span class="count">${count}</span>`}</a></li>`
  }
  return html`<nav class="filters" aria-label="Keys by state"><ul>
    ${link(null, 'All')}${KEY_FILTERS.map(filter => link(filter, FILTER_LABELS[filter]))}
  </ul></nav>`
}

/** @returns null if it is not known */
function countOf(
  state: KeyFilter | null,
  { states, expiringSoon }: WorkspaceKeyCounts,
): string | number | null {
  if (state === 'expiring') return expiringSoon > MAX_EXPIRING ? `${MAX_EXPIRING}+` : expiringSoon
  if (states === null) return null
  return state === null ? Object.values(states).reduce((sum, count) => sum + count, 0) : states[state]
}
