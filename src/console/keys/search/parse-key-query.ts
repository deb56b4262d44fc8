import { parseInstant } from '../../../domain/key/issue-key.ts'
import { isScope, isWorkspaceId, KEY_STATES, type KeyState } from '../../../domain/key/key-record.ts'
import { decodeCursor, parseOrder } from './key-cursor.ts'
import type { KeyQuery } from './key-query.ts'

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 200
const MAX_TEXT_LENGTH = 100
const CONTROL_CHARACTER = /\p{Cc}/u
const WHOLE_NUMBER = /^[1-9][0-9]{0,2}$/

/** Query parameters as they arrive. */
export type KeyQueryText = Readonly<Partial<Record<keyof typeof KEY_QUERY_EXPECTED, string | undefined>>>

export type ParsedKeyQuery =
  | { readonly ok: true; readonly query: KeyQuery }
  /** @property expected what the parameter must be, in words that follow `must be` */
  | { readonly ok: false; readonly field: string; readonly expected: string }

const INSTANT_EXPECTED = 'an instant such as 2027-02-18T09:00:00Z'

/** What each parameter must be. */
export const KEY_QUERY_EXPECTED = {
  workspaceId: '1 to 128 characters of A-Z, a-z, 0-9 and "-", ".", "_", "~"',
  state: `one of ${KEY_STATES.join(', ')}`,
  q: `1 to ${MAX_TEXT_LENGTH} characters, none of them a control character`,
  scope: 'a scope',
  expiresBefore: INSTANT_EXPECTED,
  createdBefore: INSTANT_EXPECTED,
  lastUsedBefore: INSTANT_EXPECTED,
  sort: 'createdAt, expiresAt, lastUsedAt or name, with "-" in front for descending',
  limit: `a single whole number from 1 to ${MAX_LIMIT}`,
  cursor: 'a single cursor from an earlier response with the same sort',
} as const

/** Newest first, all workspaces, unless the parameters say otherwise. */
export function parseKeyQuery(text: KeyQueryText): ParsedKeyQuery {
  const { workspaceId, state, q, scope } = text
  if (workspaceId !== undefined && !isWorkspaceId(workspaceId)) return wrong('workspaceId')
  if (state !== undefined && !isKeyState(state)) return wrong('state')
  if (q !== undefined && !isSearchText(q)) return wrong('q')
  if (scope !== undefined && !isScope(scope)) return wrong('scope')
  const [expiresBeforeMs, createdBeforeMs, lastUsedBeforeMs] = [
    instantOf(text.expiresBefore),
    instantOf(text.createdBefore),
    instantOf(text.lastUsedBefore),
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
  const texts = { state: state ?? null, text: q ?? null, scope: scope ?? null }
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

export function parseLimit(text: string): number | null {
  return WHOLE_NUMBER.test(text) && Number(text) <= MAX_LIMIT ? Number(text) : null
}

/** @returns undefined if the text is no instant, null without a text */
function instantOf(text: string | undefined): number | null | undefined {
  return text === undefined ? null : (parseInstant(text) ?? undefined)
}
