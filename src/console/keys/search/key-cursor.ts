import { KEY_SORTS, type KeyPosition, type KeyQuery, type KeySort } from './key-query.ts'

type SortOrder = Pick<KeyQuery, 'sort' | 'descending'>

/** An opaque text for a position; it is valid for the same order only. */
export function encodeCursor({ sort, descending }: SortOrder, { value, id }: KeyPosition): string {
  return Buffer.from(JSON.stringify([orderName(sort, descending), value, id])).toString('base64url')
}

/** @returns null unless the text is a cursor of this order */
export function decodeCursor({ sort, descending }: SortOrder, cursor: string): KeyPosition | null {
  const parts = parse(Buffer.from(cursor, 'base64url').toString())
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

function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return null
  }
}
