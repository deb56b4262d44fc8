/** Copied so seldom that it costs nothing, and so often that what an old table holds is little. */
const RENEW_AFTER = 1024

/**
 * A Map of what comes and goes all the time. V8 gives a Map a new table when the old one is full of what left, and the
 * old one points to the new: once one has outlived two collections, so does all that ever stood in the later ones, until
 * the whole heap is collected. Copied into a new Map now and then, the tables have nothing to do with each other.
 */
export class ChurningMap<Key, Value> {
  #map = new Map<Key, Value>()
  #added = 0

  get size(): number {
    return this.#map.size
  }

  get(key: Key): Value | undefined {
    return this.#map.get(key)
  }

  set(key: Key, value: Value): void {
    this.#added++
    if (this.#added >= RENEW_AFTER && this.#added >= this.#map.size) this.#renew()
    this.#map.set(key, value)
  }

  /** @returns whether it was there */
  delete(key: Key): boolean {
    return this.#map.delete(key)
  }

  /** In the order in which they were added. */
  entries(): MapIterator<[Key, Value]> {
    return this.#map.entries()
  }

  keys(): MapIterator<Key> {
    return this.#map.keys()
  }

  values(): MapIterator<Value> {
    return this.#map.values()
  }

  #renew(): void {
    this.#map = new Map(this.#map)
    this.#added = 0
  }
}
