import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { keyState } from '../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import { type FormFields, searchText, select, textField } from '../platform/html/form-parts.ts'
import { cell, dateText, type Html, hintHtml, html, keyLink } from '../platform/html/html.ts'
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
  FIND_KEY,
  keyPath,
  keysPath,
  newKeyPath,
  planPath,
  revokeAllPath,
  UNUSED_FILTERS,
  UNUSED_NAMES,
  type UnusedFilter,
  WORKSPACES,
} from '../platform/html/paths.ts'
import { expiryHtml, type KeyPageParts, type KeyView, lastUsed, scopeList, stateBadge } from './key-view.ts'
import { MAX_EXPIRING, type WorkspaceKeyCounts } from './search/count-keys.ts'
import {
  decodeCursor,
  EXPIRING_SOON_MS,
  KEY_FILTERS,
  type KeyFilter,
  type KeyQuery,
  parseOrder,
} from './search/key-query.ts'

const PAGE_SIZE = 50
const DAY_MS = 86_400_000

/** Lists of keys. */
export function listRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  scope.get(`${WORKSPACES}/:workspaceId/keys`, SHOWS, (request, reply) =>
    listKeys(sources, request, reply, requireWorkspace(request)),
  )
  scope.get(ALL_KEYS, SHOWS, async (request, reply) => {
    if (!signedInPerson(request).administrator) throw notFound()
    return listKeys(sources, request, reply, null)
  })
}

async function listKeys(
  { registry, scopes }: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  workspaceId: string | null,
): Promise<FastifyReply> {
  const { repository, clock, keyPrefix } = registry
  const known = { scopes: Object.keys(scopes), plans: registry.knownPlans }
  const list = readKeyList(readQuery(request), known)
  // A redirect leaves no entry in the browser's history.
  if (holdsKeyForm(list.q, keyPrefix)) return reply.redirect(FIND_KEY, 303)
  const nowMs = clock.wallMs()
  const query = createKeyQuery(list, { workspaceId, cursor: textField(readQuery(request), 'cursor'), nowMs })
  const found = await repository.search(query)
  const keys = found.keys.map(key => ({ ...key, state: keyState(key.record, nowMs) }))
  const counts = workspaceId === null ? null : await repository.countInWorkspace(workspaceId)
  // Larger workspaces are searched page by page only: counting all matches would take too long.
  const isCounted = isFiltered(list) && counts !== null && counts.states !== null
  const matches = isCounted ? await repository.count(query) : null
  const frame = createFrame(request, reply, { workspaceId, clock })
  const paging = { nextCursor: found.nextCursor, isFirstPage: query.after === null }
  const plan = workspaceId === null ? null : await repository.findPlan(workspaceId)
  const view = { workspaceId, keys, list, ...known, plan, counts, matches, ...paging }
  return sendPage(reply, keysPage(frame, view))
}

/** Orders of the list: the query parameter, and what people read. The first is the default. */
const KEY_ORDERS = {
  '-createdAt': 'Newest first',
  createdAt: 'Oldest first',
  expiresAt: 'Expiring first',
  '-lastUsedAt': 'Recently used first',
  lastUsedAt: 'Unused for longest first',
  name: 'Name',
} as const
type KeyOrder = keyof typeof KEY_ORDERS
const DEFAULT_ORDER: KeyOrder = '-createdAt'

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

/** A parameter that is unknown or malformed counts as absent. */
function readKeyList(query: FormFields, { scopes, plans }: Pick<KeysView, 'scopes' | 'plans'>): KeyList {
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
    sort: (order as KeyOrder | undefined) ?? (filter === 'expiring' ? 'expiresAt' : DEFAULT_ORDER),
  }
}

function isFiltered({ q, state, scope, plan, unused }: KeyList): boolean {
  return q !== '' || state !== null || scope !== null || plan !== null || unused !== null
}

/** @param cursor of an earlier page; the first page if it is malformed or of another order */
function createKeyQuery(
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

/** @param workspaceId null: keys of all workspaces */
function keyListPath(
  workspaceId: string | null,
  { cursor, ...list }: Partial<Record<keyof KeyList, string | null>> & { readonly cursor?: string },
): string {
  const isDefault = list.sort === DEFAULT_ORDER && list.state !== 'expiring'
  const query = { ...list, sort: isDefault ? null : list.sort, cursor }
  return keysPath(workspaceId, Object.fromEntries(Object.entries(query).filter(([, value]) => value !== '')))
}

interface KeysView {
  /** Null: keys of all workspaces. */
  readonly workspaceId: string | null
  readonly keys: readonly KeyView[]
  readonly list: KeyList
  readonly scopes: readonly string[]
  /** Those of the settings. */
  readonly plans: readonly string[]
  /** Of the workspace; null for none, and in a list of all workspaces. */
  readonly plan: string | null
  /** Null in a list of all workspaces. */
  readonly counts: WorkspaceKeyCounts | null
  /** Keys on all pages of a filtered list; null if they were not counted. */
  readonly matches: number | null
  /** Where the next page starts; null on the last. */
  readonly nextCursor: string | null
  readonly isFirstPage: boolean
}

function keysPage(frame: Frame, view: KeysView): Html {
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
    ${workspacePlan(frame, view)}
    ${workspaceId !== null && frame.mayChange && !isEmpty ? html`<p class="small"><a href="${revokeAllPath(workspaceId)}">Revoke all keys of this workspace</a></p>` : null}`
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
  const orders = Object.entries(KEY_ORDERS).map(([value, label]) => ({ value, label }))
  return html`<form class="search" role="search" method="get" action="${workspaceId === null ? ALL_KEYS : keysPath(workspaceId)}">
    ${state === null ? null : html`<input type="hidden" name="state" value="${state}">`}
    <div class="field"><label for="q">Search</label>
      <input type="search" id="q" name="q" value="${q}" maxlength="100" autocomplete="off" spellcheck="false" placeholder="Name, description, hint or id"></div>
    ${select({ name: 'scope', label: 'Scope', value: scope ?? '', options: [any, ...named(scopes)] })}
    ${plans.length === 0 ? null : select({ name: 'plan', label: 'Plan', value: plan ?? '', options: [any, ...named(plans)] })}
    ${select({ name: 'unused', label: 'Used', value: unused ?? '', options: [any, ...uses] })}
    ${select({ name: 'sort', label: 'Order', value: sort, options: orders })}
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

function keyTable({ workspaceId, keys, list, plans }: KeysView, nowMs: number): Html {
  const hintOfKey = new Map(keys.map(({ record }) => [record.id, record.hint]))
  const showsWorkspace = workspaceId === null
  const showsPlan = plans.length > 0 || keys.some(({ record }) => record.plan !== null)
  return html`<table class="stacks keys">
    <caption class="hidden">Keys. Order: ${KEY_ORDERS[list.sort]}</caption>
    <thead><tr><th scope="col">Name</th>${showsWorkspace ? html`<th scope="col">Workspace</th>` : null}<th scope="col">Hint</th><th scope="col">State</th><th scope="col">Scopes</th>${showsPlan ? html`<th scope="col">Plan</th>` : null}
      <th scope="col">Created</th><th scope="col">Expires</th><th scope="col">Last used</th></tr></thead>
    <tbody>${keys.map(key => row(key, { hintOfKey, showsWorkspace, showsPlan, nowMs }))}</tbody>
  </table>`
}

interface RowContext {
  readonly hintOfKey: ReadonlyMap<string, string>
  readonly showsWorkspace: boolean
  readonly showsPlan: boolean
  readonly nowMs: number
}

function row(key: KeyView, { hintOfKey, showsWorkspace, showsPlan, nowMs }: RowContext): Html {
  const { record, state } = key
  const { workspaceId } = record
  const isDead = state === 'expired' || state === 'revoked'
  const workspace = html`<span class="breaks"><a href="${keysPath(workspaceId)}">${workspaceId}</a></span>`
  return html`<tr${isDead ? html` class="dead"` : null}>
    <th scope="row">${keyLink(key)}${replacedBy(key, hintOfKey)}</th>
    ${showsWorkspace ? cell('Workspace', workspace) : null}
    ${cell('Hint', hintHtml(record), 'unnamed')}
    ${cell('State', stateBadge(key), 'unnamed')}
    ${cell('Scopes', scopeList(record), 'unnamed')}
    ${showsPlan ? cell('Plan', record.plan ?? html`<span class="muted">none</span>`) : null}
    ${cell('Created', dateText(record.createdAtMs), 'on-its-page')}
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
