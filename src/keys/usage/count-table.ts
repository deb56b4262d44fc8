/** Requests of one route with one outcome in one minute. */
interface RequestCount {
  readonly route: string
  readonly code: string
  /** Whole minutes since the epoch. */
  readonly minute: number
  count: number
  /** A list takes half the memory of an array: a key has few counts. */
  next: RequestCount | null
}

/** What is to be reported of one key or workspace. */
export interface CountedRow {
  readonly id: string
  readonly workspaceId: string
  /** Milliseconds since the epoch; 0 if there was no authenticated request. */
  lastUsedMs: number
  latest: RequestCount | null
}

/** Unreported counts by key or workspace, bounded. Each row is an entry, and so is each of its counts. */
export class CountTable {
  readonly #maxEntries: number
  readonly #rows = new Map<string, CountedRow>()
  #entries = 0

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries
  }

  get entries(): number {
    return this.#entries
  }

  /** @returns null if the table is full and has no row of this id */
  rowOf(id: string, workspaceId: string): CountedRow | null {
    const known = this.#rows.get(id)
    if (known !== undefined) return known
    if (this.#entries >= this.#maxEntries) return null
    const row: CountedRow = { id, workspaceId, lastUsedMs: 0, latest: null }
    this.#rows.set(id, row)
    this.#entries++
    return row
  }

  /** @returns false if the table is full: the request was not counted */
  count(row: CountedRow, route: string, code: string, minute: number): boolean {
    for (let known = row.latest; known !== null; known = known.next) {
      if (known.minute === minute && known.route === route && known.code === code) {
        known.count++
        return true
      }
    }
    if (this.#entries >= this.#maxEntries) return false
    row.latest = { route, code, minute, count: 1, next: row.latest }
    this.#entries++
    return true
  }

  /** Removes the oldest rows, with at most so many entries together. Of a row that does not fit, it removes a part. */
  takeOldest(entries: number): CountedRow[] {
    const taken: CountedRow[] = []
    let left = entries
    for (const row of this.#rows.values()) {
      const counts = countsOf(row)
      if (1 + counts.length > left) {
        if (left > 1) taken.push(this.#takePart(row, counts, left - 1))
        break
      }
      taken.push(row)
      this.#rows.delete(row.id)
      this.#entries -= 1 + counts.length
      left -= 1 + counts.length
    }
    return taken
  }

  /** Removes the latest counts of a row, of which more than so many remain. */
  #takePart(row: CountedRow, counts: readonly RequestCount[], number: number): CountedRow {
    const part = { ...row }
    const last = counts[number - 1]
    row.latest = counts[number] ?? null
    if (last !== undefined) last.next = null
    // It was reported once; the next request with the key sets it again.
    row.lastUsedMs = 0
    this.#entries -= number
    return part
  }
}

/** The counts of a row, the latest first. */
export function countsOf({ latest }: CountedRow): RequestCount[] {
  const counts: RequestCount[] = []
  for (let count = latest; count !== null; count = count.next) counts.push(count)
  return counts
}
