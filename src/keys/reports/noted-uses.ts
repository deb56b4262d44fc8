/** That a key was used in a minute, counted from the epoch. */
export interface NotedUse {
  readonly keyId: string
  readonly minute: number
}

/** In the place of a place. */
const NONE = 0

/**
 * Which keys were used, and of each the last minute: of so many keys at most, those that were noted first make room. A
 * `Map` of as many texts waits for memory several times with each use. Here a key that is not known yet is told from the
 * others by numbers that lie close together; what is not in use takes no memory.
 */
export class NotedUses {
  readonly #maxKeys: number
  /** The first place by the last bits of a hash. */
  readonly #heads: Uint32Array
  /** Of each place, from 1 on, the next one under the same head, the hash and the minute. */
  readonly #nexts: Uint32Array
  readonly #hashes: Uint32Array
  readonly #minutes: Uint32Array
  readonly #keyIds = ['']
  /** Keys are numbered in the order in which they come, and take the places in turn. */
  #first = 0
  #end = 0

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
    this.#heads = new Uint32Array(2 ** Math.ceil(Math.log2(2 * maxKeys)))
    this.#nexts = new Uint32Array(maxKeys + 1)
    this.#hashes = new Uint32Array(maxKeys + 1)
    this.#minutes = new Uint32Array(maxKeys + 1)
  }

  get size(): number {
    return this.#end - this.#first
  }

  /** @param minute no earlier than the one that is known */
  note(keyId: string, minute: number): void {
    const hash = hashOf(keyId)
    const place = this.#find(keyId, hash)
    if (place === NONE) this.#add(keyId, hash, minute)
    else this.#minutes[place] = minute
  }

  /** @returns so many at most, those that were noted first */
  first(count: number): NotedUse[] {
    return Array.from({ length: Math.min(count, this.size) }, (_, index) => {
      const place = this.#placeOf(this.#first + index)
      return { keyId: this.#keyIds[place] ?? '', minute: this.#minutes[place] ?? 0 }
    })
  }

  /** Those that `first` gave leave; but what was used again since stays, behind all others. */
  forget(uses: readonly NotedUse[]): void {
    for (const { keyId, minute } of uses) {
      const place = this.#placeOf(this.#first)
      // Else it has made room meanwhile.
      if (this.size === 0 || this.#keyIds[place] !== keyId) continue
      const lastMinute = this.#minutes[place] ?? minute
      this.#dropFirst()
      if (lastMinute !== minute) this.note(keyId, lastMinute)
    }
  }

  #find(keyId: string, hash: number): number {
    let place = this.#headOf(hash)
    while (place !== NONE && !(this.#hashes[place] === hash && this.#keyIds[place] === keyId)) {
      place = this.#nexts[place] ?? NONE
    }
    return place
  }

  #add(keyId: string, hash: number, minute: number): void {
    if (this.size === this.#maxKeys) this.#dropFirst()
    const place = this.#placeOf(this.#end++)
    this.#keyIds[place] = keyId
    this.#hashes[place] = hash
    this.#minutes[place] = minute
    this.#nexts[place] = this.#headOf(hash)
    this.#setHead(hash, place)
  }

  #dropFirst(): void {
    const place = this.#placeOf(this.#first++)
    const hash = this.#hashes[place] ?? 0
    const next = this.#nexts[place] ?? NONE
    let before = this.#headOf(hash)
    if (before === place) this.#setHead(hash, next)
    else {
      while (this.#nexts[before] !== place) before = this.#nexts[before] ?? NONE
      this.#nexts[before] = next
    }
    this.#keyIds[place] = ''
  }

  #headOf(hash: number): number {
    return this.#heads[hash & (this.#heads.length - 1)] ?? NONE
  }

  #setHead(hash: number, place: number): void {
    this.#heads[hash & (this.#heads.length - 1)] = place
  }

  #placeOf(number: number): number {
    return 1 + (number % this.#maxKeys)
  }
}

/** FNV-1a. Key ids are of the console's or the key service's making, so that nobody chooses them for their hashes. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash >>> 0
}
