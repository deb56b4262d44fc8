import { UseOrder } from './use-order.ts'
import { DIGEST_BYTES, DIGEST_WORDS, want, wanted } from './wanted-digest.ts'

/** Word of a row after its digest: the next row under the same head. */
const CHAINED = DIGEST_WORDS
/** With one word to spare, so that the numbers after them lie on a multiple of eight. */
const HEADER_NUMBERS = DIGEST_WORDS / 2 + 1

/** Rows are numbered from 1, so that whatever is still zero points to none. */
export const NO_ROW = 0

export interface RowShape {
  readonly maxRows: number
  /** Numbers in each row. */
  readonly numbers: number
  /** Bytes in each row, beside those: a multiple of eight. */
  readonly bytes: number
}

/**
 * Rows of one size under digests, of which the one that was used longest ago makes room. They lie in a buffer, outside the
 * heap of V8: a million objects there make its collections pause for tens of milliseconds, and so does the table of a
 * `Map` whenever it grows. Here no call does more than a few rows' work. The buffer is as large as it may ever be from the
 * start; the system gives it memory page by page, as it is used.
 */
export class PackedRows {
  readonly #shape: RowShape
  readonly #numbersInRow: number
  readonly #wordsInRow: number
  readonly #onEvict: (row: number) => void
  /** First row by the leading bits of a digest. */
  #heads: Uint32Array
  /** The same bytes, seen in three ways; in the last a row's own begin at `bytesAt(row)`. */
  readonly #words: Uint32Array
  readonly #numbers: Float64Array
  readonly buffer: Buffer
  readonly #order: UseOrder
  #size = 0
  /** The highest number that was ever given. */
  #last = 0
  #firstFree = NO_ROW

  /** @param onEvict told of the row that makes room, while it still holds what it held */
  constructor(shape: RowShape, onEvict: (row: number) => void = () => {}) {
    this.#shape = shape
    this.#numbersInRow = HEADER_NUMBERS + shape.numbers + shape.bytes / 8
    this.#wordsInRow = 2 * this.#numbersInRow
    this.#onEvict = onEvict
    this.#order = new UseOrder(shape.maxRows)
    this.#heads = this.#noHeads()
    const memory = new ArrayBuffer((shape.maxRows + 1) * 8 * this.#numbersInRow)
    this.#words = new Uint32Array(memory)
    this.#numbers = new Float64Array(memory)
    this.buffer = Buffer.from(memory)
  }

  get size(): number {
    return this.#size
  }

  /** @param digest 64 hex digits. @returns `NO_ROW` where there is none */
  find(digest: string): number {
    want(digest)
    let row = this.#headOf(wanted[0] ?? 0)
    while (row !== NO_ROW && !this.#isWanted(row)) row = this.#word(row, CHAINED)
    return row
  }

  /** Now it is the one that was used last. */
  touch(row: number): void {
    this.#order.touch(row)
  }

  /** The row of a digest, used last; where there was none, with what another one left in it. */
  claim(digest: string): number {
    const known = this.find(digest)
    if (known !== NO_ROW) {
      this.touch(known)
      return known
    }
    if (this.#size === this.#shape.maxRows) this.#evictOldest()
    // Whoever was told of it may have looked for another one.
    want(digest)
    const row = this.#free()
    const at = this.#wordsInRow * row
    this.#words.set(wanted, at)
    this.#words[at + CHAINED] = this.#headOf(wanted[0] ?? 0)
    this.#setHead(wanted[0] ?? 0, row)
    this.#order.join(row)
    this.#size++
    return row
  }

  /** The row that was used longest ago; `NO_ROW` where there is none. */
  get oldest(): number {
    return this.#order.oldest
  }

  /** @returns 64 hex digits */
  digestOf(row: number): string {
    const at = 4 * this.#wordsInRow * row
    return this.buffer.toString('hex', at, at + DIGEST_BYTES)
  }

  remove(row: number): void {
    const next = this.#word(row, CHAINED)
    const lead = this.#word(row, 0)
    let before = this.#headOf(lead)
    if (before === row) this.#setHead(lead, next)
    else {
      while (this.#word(before, CHAINED) !== row) before = this.#word(before, CHAINED)
      this.#setWord(before, CHAINED, next)
    }
    this.#order.leave(row)
    this.#setWord(row, CHAINED, this.#firstFree)
    this.#firstFree = row
    this.#size--
  }

  /** Forgets all of them at once, whatever their number. */
  clear(): void {
    this.#heads = this.#noHeads()
    this.#order.clear()
    this.#size = 0
    this.#last = 0
    this.#firstFree = NO_ROW
  }

  number(row: number, column: number): number {
    return this.#numbers[this.#numbersBefore(row) + column] ?? Number.NaN
  }

  setNumber(row: number, column: number, value: number): void {
    this.#numbers[this.#numbersBefore(row) + column] = value
  }

  bytesAt(row: number): number {
    return 8 * (this.#numbersBefore(row) + this.#shape.numbers)
  }

  #evictOldest(): void {
    const { oldest } = this
    this.#onEvict(oldest)
    this.remove(oldest)
  }

  #free(): number {
    const row = this.#firstFree
    if (row !== NO_ROW) {
      this.#firstFree = this.#word(row, CHAINED)
      return row
    }
    this.#last++
    return this.#last
  }

  #isWanted(row: number): boolean {
    const at = this.#wordsInRow * row
    for (let word = 0; word < DIGEST_WORDS; word++) {
      if (this.#words[at + word] !== wanted[word]) return false
    }
    return true
  }

  #noHeads(): Uint32Array {
    return new Uint32Array(2 ** Math.ceil(Math.log2(this.#shape.maxRows)))
  }

  /** A digest is as good as chance: a few of its bits spread rows evenly. */
  #headOf(lead: number): number {
    return this.#heads[lead & (this.#heads.length - 1)] ?? NO_ROW
  }

  #setHead(lead: number, row: number): void {
    this.#heads[lead & (this.#heads.length - 1)] = row
  }

  #word(row: number, at: number): number {
    return this.#words[this.#wordsInRow * row + at] ?? NO_ROW
  }

  #setWord(row: number, at: number, value: number): void {
    this.#words[this.#wordsInRow * row + at] = value
  }

  #numbersBefore(row: number): number {
    return this.#numbersInRow * row + HEADER_NUMBERS
  }
}
