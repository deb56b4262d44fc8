/** In place of a row: its neighbours are the ends of the order. The one newer than it is the oldest. */
const ENDS = 0

/**
 * Rows, by their numbers from 1 on, in the order of their use. To be used again changes the links of three rows, which of
 * many lie far apart: close together, and not within the rows themselves, they stay in the processor's caches.
 */
export class UseOrder {
  /** Of each row the one newer and the one older than it. */
  readonly #links: Uint32Array

  constructor(maxRows: number) {
    this.#links = new Uint32Array(2 * (maxRows + 1))
  }

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

  /** All of them leave. */
  clear(): void {
    this.#link(ENDS, ENDS)
  }

  #link(older: number, newer: number): void {
    this.#links[2 * older] = newer
    this.#links[2 * newer + 1] = older
  }

  #newer(row: number): number {
    return this.#links[2 * row] ?? ENDS
  }

  #older(row: number): number {
    return this.#links[2 * row + 1] ?? ENDS
  }
}
