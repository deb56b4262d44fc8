import { INSTANT_EXPECTED, parseInstant } from '../../../domain/form/instant.ts'
import { parseJson } from '../../../domain/form/json.ts'
import { SHORT_NAME } from '../../../domain/id-form.ts'
import {
  isScope,
  isWorkspaceId,
  KEY_STATES,
  type KeyRecord,
  type KeyState,
  WORKSPACE_ID_EXPECTED,
} from '../../../domain/key/key-record.ts'

export const KEY_SORTS = ['createdAt', 'expiresAt', 'lastUsedAt', 'name'] as const
export type KeySort = (typeof KEY_SORTS)[number]

/** Which keys: every condition that is not null must hold. */
export interface KeySelector {
  /** Null: all workspaces. */
  readonly workspaceIds: readonly string[] | null
  readonly state: KeyState | null
  /** A part of the name, id, hint or description, in any case; not a pattern. */
  readonly text: string | null
  readonly scope: string | null
  readonly plan: string | null
  readonly expiresBeforeMs: number | null
  readonly createdBeforeMs: number | null
  /** A key that was never used counts as last used before any time. */
  readonly lastUsedBeforeMs: number | null
}

export const EVERY_KEY: KeySelector = {
  workspaceIds: null,
  state: null,
  text: null,
  scope: null,
  plan: null,
  expiresBeforeMs: null,
  createdBeforeMs: null,
  lastUsedBeforeMs: null,
}

/** One page of keys. */
export interface KeyQuery extends KeySelector {
  readonly sort: KeySort
  readonly descending: boolean
  readonly limit: number
  /** The page starts after this position; null: at the start. */
  readonly after: KeyPosition | null
}

/** A place in a sorted list of keys. */
export interface KeyPosition {
  /** The sorted value: a name or ms since the epoch; 0 for the last use of a key that was never used. */
  readonly value: string | number
  /** Decides between equal values. */
  readonly id: string
}

export interface FoundKey {
  readonly record: KeyRecord
  readonly digest: string
  readonly lastUsedAtMs: number | null
}

export interface KeySearchPage {
  readonly keys: readonly FoundKey[]
  /**
   * Cursor of the next page; null on the last. A rare match can leave a page short, even empty, before the last: a page
   * examines a bounded number of keys.
   */
  readonly nextCursor: string | null
}

export const EXPIRING_SOON_MS = 14 * 86_400_000
/** Expiring keys of a workspace with more than `MAX_COUNTED` that are counted at most. */
export const MAX_EXPIRING = 1000

/** Filters of the key list; `expiring` keys are also `active`. */
export const KEY_FILTERS = ['active', 'expiring', 'retiring', 'suspended', 'expired', 'revoked'] as const
export type KeyFilter = (typeof KEY_FILTERS)[number]

/** Whether the selector leaves out any key of its workspaces. */
export function hasConditions(selector: KeySelector): boolean {
  const { state, text, scope, plan, expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs } = selector
  return [state, text, scope, plan, expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs].some(
    value => value !== null,
  )
}

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 200
const MAX_TEXT_LENGTH = 100
const CONTROL_CHARACTER = /\p{Cc}/u
const WHOLE_NUMBER = /^[1-9][0-9]{0,2}$/

/** Query parameters as they arrive. */
export type KeyQueryText = Readonly<Partial<Record<keyof typeof KEY_QUERY_EXPECTED, string | undefined>>>

type ParsedKeyQuery =
  | { readonly ok: true; readonly query: KeyQuery }
  /** @property expected what the parameter must be, in words that follow `must be` */
  | { readonly ok: false; readonly field: string; readonly expected: string }

/** What each parameter must be. */
export const KEY_QUERY_EXPECTED = {
  workspaceId: WORKSPACE_ID_EXPECTED,
  state: `one of ${KEY_STATES.join(', ')}`,
  q: `1 to ${MAX_TEXT_LENGTH} characters, none of them a control character`,
  scope: 'a scope',
  plan: 'the name of a plan',
  expiresBefore: INSTANT_EXPECTED,
  createdBefore: INSTANT_EXPECTED,
  lastUsedBefore: INSTANT_EXPECTED,
  sort: 'createdAt, expiresAt, lastUsedAt or name, with "-" in front for descending',
  limit: `a single whole number from 1 to ${MAX_LIMIT}`,
  cursor: 'a single cursor from an earlier response with the same sort',
} as const

/** Newest first, all workspaces, unless the parameters say otherwise. */
export function parseKeyQuery(text: KeyQueryText): ParsedKeyQuery {
  const { workspaceId, state, q, scope, plan } = text
  if (workspaceId !== undefined && !isWorkspaceId(workspaceId)) return wrong('workspaceId')
  if (state !== undefined && !isKeyState(state)) return wrong('state')
  if (q !== undefined && !isSearchText(q)) return wrong('q')
  if (scope !== undefined && !isScope(scope)) return wrong('scope')
  if (plan !== undefined && !SHORT_NAME.test(plan)) return wrong('plan')
  const [expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs] = [
    parseOptionalInstant(text.expiresBefore),
    parseOptionalInstant(text.createdBefore),
    parseOptionalInstant(text.lastUsedBefore),
  ]
  if (expiresBeforeMs === undefined) return wrong('expiresBefore')
  if (createdBeforeMs === undefined) return wrong('createdBefore')
  if (lastUsedBeforeMs === undefined) return wrong('lastUsedBefore')
  const order = parseOrder(text.sort ?? '-createdAt')
  if (order === null) return wrong('sort')
  const limit = text.limit === undefined ? DEFAULT_LIMIT : parseLimit(text.limit)
  if (limit === null) return wrong('limit')
  const after = text.cursor === undefined ? null : decodeCursor(order, text.cursor)
  if (text.cursor !== undefined && after === null) return wrong('cursor')
  const workspaceIds = workspaceId === undefined ? null : [workspaceId]
  const texts = { state: state ?? null, text: q ?? null, scope: scope ?? null, plan: plan ?? null }
  const times = { expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs }
  return { ok: true, query: { workspaceIds, ...texts, ...times, ...order, limit, after } }
}

function wrong(field: keyof typeof KEY_QUERY_EXPECTED): ParsedKeyQuery {
  return { ok: false, field, expected: KEY_QUERY_EXPECTED[field] }
}

function isKeyState(text: string): text is KeyState {
  return KEY_STATES.some(state => state === text)
}

/** A line, which no database rejects; a line break would match across two fields. */
export function isSearchText(text: string): boolean {
  return (
    text !== '' && [...text].length <= MAX_TEXT_LENGTH && !CONTROL_CHARACTER.test(text) && text.isWellFormed()
  )
}

function parseLimit(text: string): number | null {
  return WHOLE_NUMBER.test(text) && Number(text) <= MAX_LIMIT ? Number(text) : null
}

/** @returns undefined if the text is no instant, null without a text */
function parseOptionalInstant(text: string | undefined): number | null | undefined {
  return text === undefined ? null : (parseInstant(text) ?? undefined)
}

type SortOrder = Pick<KeyQuery, 'sort' | 'descending'>

/** An opaque text for a position; it is valid for the same order only. */
export function encodeCursor({ sort, descending }: SortOrder, { value, id }: KeyPosition): string {
  return Buffer.from(JSON.stringify([orderName(sort, descending), value, id])).toString('base64url')
}

/** @returns null unless the text is a cursor of this order */
export function decodeCursor({ sort, descending }: SortOrder, cursor: string): KeyPosition | null {
  const parts = parseJson(Buffer.from(cursor, 'base64url').toString())
  if (!Array.isArray(parts) || parts.length !== 3) return null
  const [order, value, id]: unknown[] = parts
  if (order !== orderName(sort, descending) || typeof id !== 'string') return null
  if (sort === 'name') return typeof value === 'string' && !hasNul(value + id) ? { value, id } : null
  return typeof value === 'number' && Number.isSafeInteger(value) && !hasNul(id) ? { value, id } : null
}

/** @param text as in the query parameter `sort`: `name`, `-expiresAt` */
export function parseOrder(text: string): SortOrder | null {
  const descending = text.startsWith('-')
  const sort = KEY_SORTS.find(name => name === text.slice(descending ? 1 : 0))
  return sort === undefined ? null : { sort, descending }
}

function orderName(sort: KeySort, descending: boolean): string {
  return descending ? `-${sort}` : sort
}

/** PostgreSQL accepts no text with U+0000. */
function hasNul(text: string): boolean {
  return text.includes('\0')
}
