import type { FastifyInstance, FastifyReply } from 'fastify'
import { type KeyRecord, keyState } from '../../domain/key/key-record.ts'
import { select, textField } from '../platform/html/form-parts.ts'
import { type Html, html, type ListPlace, pageLinks } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import {
  createFrame,
  notFound,
  readQuery,
  requireWorkspace,
  SHOWS,
  sendPage,
  signedInPerson,
} from '../platform/html/page-request.ts'
import {
  ALL_KEYS,
  findKeyPath,
  keysPath,
  newKeyPath,
  planPath,
  revokeAllPath,
  UNUSED_FILTERS,
  UNUSED_NAMES,
  WORKSPACES,
} from '../platform/html/paths.ts'
import {
  createKeyQuery,
  isFiltered,
  KEY_ORDERS,
  type KeyTableView,
  type KnownNames,
  keyListPath,
  keyTable,
  readKeyList,
  usualOrder,
} from './key-list.ts'
import type { KeyPageParts, KeyView } from './key-view.ts'
import type { WorkspaceKeyCounts } from './search/count-keys.ts'
import { KEY_FILTERS, type KeyFilter, MAX_EXPIRING } from './search/key-query.ts'

export function listRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  scope.get(`${WORKSPACES}/:workspaceId/keys`, SHOWS, (request, reply) =>
    listKeys(sources, reply, requireWorkspace(request)),
  )
  scope.get(ALL_KEYS, SHOWS, async (request, reply) => {
    if (!signedInPerson(request).administrator) throw notFound()
    return listKeys(sources, reply, null)
  })
}

async function listKeys(
  { registry, scopes }: KeyPageParts,
  reply: FastifyReply,
  workspaceId: string | null,
): Promise<FastifyReply> {
  const { search, plans, clock } = registry
  const known = { scopes: Object.keys(scopes), plans: registry.knownPlans }
  const list = readKeyList(readQuery(reply.request), known)
  const nowMs = clock.wallMs()
  const cursor = textField(readQuery(reply.request), 'cursor')
  const query = createKeyQuery(list, { workspaceId, cursor, nowMs })
  const found = await search.find(query)
  const keys = found.keys.map(key => ({ ...key, state: keyState(key.record, nowMs) }))
  const counts = workspaceId === null ? null : await search.countInWorkspace(workspaceId)
  // Larger workspaces are searched page by page only: counting all matches would take too long.
  const isCounted = isFiltered(list) && counts !== null && counts.states !== null
  const matches = isCounted ? await search.count(query) : null
  const frame = createFrame(reply, { workspaceId, clock })
  const paging = { nextCursor: found.nextCursor, isFirstPage: query.after === null }
  const plan = workspaceId === null ? null : await plans.findPlan(workspaceId)
  const place = { workspaceId, list, cursor: query.after === null ? '' : cursor }
  const successors = await findSuccessors(registry, keys)
  const view = { ...place, keys, successors, ...known, plan, counts, matches, ...paging }
  return sendPage(reply, keysPage(frame, view))
}

async function findSuccessors(
  { stored }: KeyPageParts['registry'],
  keys: readonly KeyView[],
): Promise<ReadonlyMap<string, KeyRecord>> {
  const found = new Map(keys.map(({ record }) => [record.id, record]))
  const named = keys.flatMap(({ state, record }) => (state === 'retiring' ? (record.replacedBy ?? []) : []))
  const others = named.filter(id => !found.has(id))
  if (others.length === 0) return found
  for (const [id, { record }] of await stored.findByIds(others)) found.set(id, record)
  return found
}

interface KeysView extends KeyTableView, KnownNames, ListPlace {
  /** Of the workspace; null for none, and in a list of all workspaces. */
  readonly plan: string | null
  /** Null in a list of all workspaces. */
  readonly counts: WorkspaceKeyCounts | null
  /** Keys on all pages of a filtered list; null if they were not counted. */
  readonly matches: number | null
}

function keysPage(frame: Frame, view: KeysView): Html {
  const { workspaceId, keys } = view
  const isEmpty = keys.length === 0 && !isFiltered(view.list) && view.isFirstPage
  const main = html`<div class="title">
      <h1>${workspaceId === null ? 'Keys of all workspaces' : 'Keys'}</h1>
      <div class="actions"><a class="button" href="${findKeyPath(frame.workspaceId)}">Find a key</a>
      ${workspaceId !== null && frame.mayChange ? html`<a class="button primary" href="${newKeyPath(workspaceId)}">Issue a key</a>` : null}</div>
    </div>
    ${expiringNotice(view)}
    ${isEmpty ? null : keySearch(view)}
    ${isEmpty ? null : stateFilters(view)}
    ${isEmpty ? emptyList(frame, view) : results(frame, view)}
    ${pageLinks(view, cursor => keyListPath(workspaceId, { ...view.list, cursor }))}
    ${workspacePlan(frame, view)}
    ${workspaceId !== null && frame.mayChange && !isEmpty ? html`<p><a class="button danger" href="${revokeAllPath(workspaceId)}">Revoke all keys</a></p>` : null}`
  return page(frame, { title: 'Keys', section: workspaceId === null ? null : 'keys', main })
}

/** Nothing where plans are not used. */
function workspacePlan({ isAdministrator }: Frame, { workspaceId, plan, plans }: KeysView): Html | null {
  if (workspaceId === null || (plans.length === 0 && plan === null)) return null
  const change = html` <a href="${planPath(workspaceId)}">Change the plan</a>`
  return html`<p class="small">Plan of this workspace: ${plan === null ? 'none' : html`<strong>${plan}</strong>`}.${isAdministrator ? change : null}</p>`
}

function expiringNotice({ workspaceId, counts, list }: KeysView): Html | null {
  const count = counts?.expiringSoon ?? 0
  if (count === 0 || list.state === 'expiring') return null
  const number = count > MAX_EXPIRING ? `More than ${MAX_EXPIRING}` : String(count)
  const which = count === 1 ? 'One key expires' : `${number} keys expire`
  const state: KeyFilter = 'expiring'
  return html`<p class="notice warn"><strong>${which} within 14 days.</strong>
    <a href="${keyListPath(workspaceId, { state })}">Show expiring keys</a><span class="roomy"> and rotate them in time: requests with an expired key are rejected.</span></p>`
}

function results(frame: Frame, view: KeysView): Html {
  const { keys, matches, nextCursor } = view
  if (keys.length > 0) {
    return html`${matches === null ? null : html`<p class="muted" role="status">${matches === 1 ? '1 key matches' : `${matches} keys match`}</p>`}
      ${keyTable(frame, view)}`
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

const FILTER_LABELS: Readonly<Record<KeyFilter, string>> = {
  active: 'Active',
  expiring: 'Expiring soon',
  retiring: 'Retiring',
  suspended: 'Suspended',
  expired: 'Expired',
  revoked: 'Revoked',
}

/** A form whose response is at a URL. */
function keySearch({ workspaceId, list, scopes, plans }: KeysView): Html {
  const { q, state, scope, plan, unused, sort } = list
  const named = (names: readonly string[]) => names.map(name => ({ value: name, label: name }))
  const any = { value: '', label: 'Any' }
  const uses = UNUSED_NAMES.map(value => ({ value, label: UNUSED_FILTERS[value].label }))
  const usual = usualOrder(state)
  const orders = Object.entries(KEY_ORDERS).map(([value, label]) => ({
    value: value === usual ? '' : value,
    label,
  }))
  const chosen = [scope, plan, unused].filter(value => value !== null).length
  return html`<form class="search" role="search" method="get" action="${keysPath(workspaceId)}" data-submits>
    ${state === null ? null : html`<input type="hidden" name="state" value="${state}">`}
    <div class="field"><label for="q" class="roomy">Search</label>
      <input type="search" id="q" name="q" value="${q}" maxlength="100" autocomplete="off" spellcheck="false" placeholder="Name, description, hint or id"></div>
    <details class="fold"><summary>Filters${chosen === 0 ? null : html` <span class="count">${chosen}</span>`}</summary><div>
    ${select({ name: 'scope', label: 'Scope', value: scope ?? '', options: [any, ...named(scopes)] })}
    ${plans.length === 0 ? null : select({ name: 'plan', label: 'Plan', value: plan ?? '', options: [any, ...named(plans)] })}
    ${select({ name: 'unused', label: 'Used', value: unused ?? '', options: [any, ...uses] })}
    ${select({ name: 'sort', label: 'Order', value: sort === usual ? '' : sort, options: orders })}
    </div></details>
    <button>Search</button>
  </form>`
}

/** Links that keep the rest of the search. */
function stateFilters({ workspaceId, list, counts }: KeysView): Html {
  const link = (state: KeyFilter | null, label: string) => {
    const here = state === list.state ? html` aria-current="true"` : null
    // The order that suits expiring keys is not kept for others.
    const sort = list.state === 'expiring' || state === 'expiring' ? null : list.sort
    const path = keyListPath(workspaceId, { ...list, sort, state })
    const count = counts === null ? null : stateCount(state, counts)
    return html`<li><a href="${path}"${here}>${label}${count === null ? null : html` <span class="count">${count}</span>`}</a></li>`
  }
  return html`<nav class="filters" aria-label="Keys by state"><ul>
    ${link(null, 'All')}${KEY_FILTERS.map(filter => link(filter, FILTER_LABELS[filter]))}
  </ul></nav>`
}

/** @returns null if it is not known */
function stateCount(
  state: KeyFilter | null,
  { states, expiringSoon }: WorkspaceKeyCounts,
): string | number | null {
  if (state === 'expiring') return expiringSoon > MAX_EXPIRING ? `${MAX_EXPIRING}+` : expiringSoon
  if (states === null) return null
  return state === null ? Object.values(states).reduce((sum, count) => sum + count, 0) : states[state]
}
