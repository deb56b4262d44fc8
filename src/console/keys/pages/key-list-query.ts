import { type FormFields, searchText, textField } from '../../platform/html/form-parts.ts'
import { keysPath, UNUSED_FILTERS, UNUSED_NAMES, type UnusedFilter } from '../../platform/html/paths.ts'
import { KEY_FILTERS, type KeyFilter } from '../rows/key-rows.ts'
import { decodeCursor, parseOrder } from '../search/key-cursor.ts'
import { EXPIRING_SOON_MS, type KeyQuery } from '../search/key-query.ts'

const PAGE_SIZE = 50
const DAY_MS = 86_400_000

/** Orders of the list: the query parameter, and what people read. The first is the default. */
export const KEY_ORDERS = {
  '-createdAt': 'Newest first',
  createdAt: 'Oldest first',
  expiresAt: 'Expiring first',
  '-lastUsedAt': 'Recently used first',
  lastUsedAt: 'Unused for longest first',
  name: 'Name',
} as const
export type KeyOrder = keyof typeof KEY_ORDERS
const DEFAULT_ORDER: KeyOrder = '-createdAt'

/** What the list shows, as the URL says. */
export interface KeyList {
  /** Part of the name, description, hint or id; empty for any. */
  readonly q: string
  readonly state: KeyFilter | null
  readonly scope: string | null
  readonly unused: UnusedFilter | null
  readonly sort: KeyOrder
}

/** A parameter that is unknown or malformed counts as absent. */
export function readKeyList(query: FormFields, scopes: readonly string[]): KeyList {
  const state = textField(query, 'state')
  const scope = textField(query, 'scope')
  const unused = textField(query, 'unused')
  const sort = textField(query, 'sort')
  const filter = KEY_FILTERS.find(name => name === state) ?? null
  const order = Object.keys(KEY_ORDERS).find(isOrder => isOrder === sort)
  return {
    q: searchText(textField(query, 'q')),
    state: filter,
    scope: scopes.includes(scope) ? scope : null,
    unused: UNUSED_NAMES.find(name => name === unused) ?? null,
    // Found among the keys of the list.
    sort: (order as KeyOrder | undefined) ?? (filter === 'expiring' ? 'expiresAt' : DEFAULT_ORDER),
  }
}

export function isFiltered({ q, state, scope, unused }: KeyList): boolean {
  return q !== '' || state !== null || scope !== null || unused !== null
}

/** @param cursor of an earlier page; the first page if it is malformed or of another order */
export function keyQueryOf(
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
    expiresBeforeMs: list.state === 'expiring' ? nowMs + EXPIRING_SOON_MS + 1 : null,
    createdBeforeMs: null,
    lastUsedBeforeMs: list.unused === null ? null : lastUsedBefore(list.unused, nowMs),
    ...order,
    limit: PAGE_SIZE,
    after: cursor === '' ? null : decodeCursor(order, cursor),
  }
}

/** A key that was never used was last used at 0. */
function lastUsedBefore(unused: UnusedFilter, nowMs: number): number {
  const { days } = UNUSED_FILTERS[unused]
  return days === null ? 1 : nowMs - days * DAY_MS
}

/** @param workspaceId null: keys of all workspaces */
export function keyListPath(
  workspaceId: string | null,
  { cursor, ...list }: Partial<Record<keyof KeyList, string | null>> & { readonly cursor?: string },
): string {
  const isDefault = list.sort === DEFAULT_ORDER && list.state !== 'expiring'
  const query = { ...list, sort: isDefault ? null : list.sort, cursor }
  return keysPath(workspaceId, Object.fromEntries(Object.entries(query).filter(([, value]) => value !== '')))
}
