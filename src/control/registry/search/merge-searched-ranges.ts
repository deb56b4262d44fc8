import type { KeyPosition } from './key-query.ts'
import type { PlacedKey, SearchedRange } from './ordered-keys.ts'

/**
 * Joins ranges of several workspaces that begin at the same position. What lies after the nearest end is left out: keys
 * of the range that ends there may belong before it.
 */
export function mergeSearchedRanges(ranges: readonly SearchedRange[], descending: boolean): SearchedRange {
  const order = (a: KeyPosition, b: KeyPosition) =>
    descending ? comparePositions(b, a) : comparePositions(a, b)
  const ends = ranges.flatMap(({ end }) => (end === null ? [] : [end]))
  const [nearest = null] = ends.sort(order)
  const found: PlacedKey[] = ranges
    .flatMap(range => range.found)
    .filter(({ position }) => nearest === null || order(position, nearest) <= 0)
    .sort((a, b) => order(a.position, b.position))
  return { found, end: nearest }
}

/** The order of both databases: numbers by value, texts by their UTF-8 bytes, which UTF-16 orders differently. */
function comparePositions(a: KeyPosition, b: KeyPosition): number {
  return compareValues(a.value, b.value) || compareValues(a.id, b.id)
}

function compareValues(a: string | number, b: string | number): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return Buffer.compare(Buffer.from(String(a)), Buffer.from(String(b)))
}
