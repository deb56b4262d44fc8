/** Limits the bytes that all connections of a server together buffer ahead of Node's parser. */
export class ReadAheadBudget {
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @returns the part of the budget that one connection uses */
  share(): ReadAheadShare {
    return new ReadAheadShare(changeBytes => {
      this.#bytes += changeBytes
      return this.#bytes <= this.#maxBytes
    })
  }
}

export class ReadAheadShare {
  readonly #change: (changeBytes: number) => boolean
  #bytes = 0

  constructor(change: (changeBytes: number) => boolean) {
    this.#change = change
  }

  /** Sets how many bytes this connection buffers. @returns whether all connections together stay within the budget */
  set(bytes: number): boolean {
    const changeBytes = bytes - this.#bytes
    this.#bytes = bytes
    return this.#change(changeBytes)
  }

  release(): void {
    if (this.#bytes > 0) this.set(0)
  }
}
