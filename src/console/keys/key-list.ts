import { type FormFields, searchText, textField } from '../platform/html/form-parts.ts'
import { keysPath, UNUSED_FILTERS, UNUSED_NAMES, type UnusedFilter } from '../platform/html/paths.ts'
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

/** Orders of the list: the query parameter, and what people read. The first is the default. */
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
const DEFAULT_ORDER: KeyOrder = '-createdAt'

/** What the list shows, as the URL says. */
export interface KeyList {
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
    sort: (order as KeyOrder | undefined) ?? (filter === 'expiring' ? 'expiresAt' : DEFAULT_ORDER),
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
export type KeyListQuery = Partial<Record<keyof KeyList, string | null>> & { readonly cursor?: string }

export function keyListQuery({ cursor, ...list }: KeyListQuery): Readonly<Record<string, string | null>> {
  const isDefault = list.sort === DEFAULT_ORDER && list.state !== 'expiring'
  const query = { ...list, sort: isDefault ? null : list.sort, cursor }
  const present = Object.entries(query).map(([name, value]) => [name, value === '' ? null : (value ?? null)])
  return Object.fromEntries(present)
}

/** @param workspaceId null: keys of all workspaces */
export function keyListPath(workspaceId: string | null, query: KeyListQuery): string {
  return keysPath(workspaceId, keyListQuery(query))
}
