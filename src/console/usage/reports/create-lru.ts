import { LRUCache } from 'lru-cache'

/**
 * The most recent entries, in memory that grows with them: a bound by `max` allocates for all of them at once, which takes 15 ms of a
 * console's start for the 100,000 keys of each of two.
 */
export function createLru<Value extends number | string | true>(maxEntries: number): LRUCache<string, Value> {
  return new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1 })
}
