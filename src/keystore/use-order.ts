/** Links of so many rows lie in one piece of memory, half a megabyte. */
const ROWS_BITS = 16
const ROWS_IN_PIECE = 1 << ROWS_BITS
/** In place of a row: its neighbours are the ends of the order. The one newer than it is the oldest. */
const ENDS = 0

/**
 * Rows, by their numbers from 1 on, in the order of their use. To be used again changes the links of three rows, which of
 * many lie far apart: close together, and not within the rows themselves, they stay in the processor's caches.
 */
export class UseOrder {
  /** Of each row the one newer and the one older than it. */
  readonly #pieces: Uint32Array[] = []

  /** The row that was used longest ago; 0 where there is none. */
  get oldest(): number {
    return this.#newer(ENDS)
  }

  /** Now it is the one that was used last. */
  touch(row: number): void {
    if (this.#older(ENDS) === row) return
    this.leave(row)
    this.join(row)
  }

  join(row: number): void {
    const newest = this.#older(ENDS)
    this.#link(newest, row)
    this.#link(row, ENDS)
  }

  leave(row: number): void {
    this.#link(this.#older(row), this.#newer(row))
  }

  #link(older: number, newer: number): void {
    this.#pieceOf(older)[placeOf(older)] = newer
    this.#pieceOf(newer)[placeOf(newer) + 1] = older
  }

  #newer(row: number): number {
    return this.#pieceOf(row)[placeOf(row)] ?? ENDS
  }

  #older(row: number): number {
    return this.#pieceOf(row)[placeOf(row) + 1] ?? ENDS
  }

  #pieceOf(row: number): Uint32Array {
    const index = row >>> ROWS_BITS
    let piece = this.#pieces[index]
    if (piece === undefined) {
      piece = new Uint32Array(2 * ROWS_IN_PIECE)
      this.#pieces[index] = piece
    }
    return piece
  }
}

function placeOf(row: number): number {
  return 2 * (row & (ROWS_IN_PIECE - 1))
}
