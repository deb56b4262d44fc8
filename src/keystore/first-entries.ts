/** Of a full map so many of its entries go at once. */
const SHARE = 1 / 16

/** @returns the entries that were put in first, without a look at the others */
export function firstEntries<Key, Value>(map: ReadonlyMap<Key, Value>, count: number): [Key, Value][] {
  const first: [Key, Value][] = []
  for (const entry of map) {
    if (first.length === count) break
    first.push(entry)
  }
  return first
}

/**
 * Makes room where there are too many: the entries that were put in first go, a share of them at once, because a map
 * passes over all that were deleted at its beginning whenever it is asked for its first. One at a time that costs 18 µs
 * with 100,000 entries.
 */
export function forgetFirst(map: Map<unknown, unknown>, maxEntries: number): void {
  if (map.size <= maxEntries) return
  const kept = Math.min(maxEntries, Math.ceil(maxEntries * (1 - SHARE)))
  for (const key of map.keys()) {
    map.delete(key)
    if (map.size <= kept) return
  }
}
