/** What all connections of a server together keep of bytes that their clients sent ahead. */
export class HeldBytes {
  readonly #most: number
  #now = 0

  constructor(most: number) {
    this.#most = most
  }

  /** For one connection. */
  share(): HeldShare {
    return new HeldShare(change => {
      this.#now += change
      return this.#now <= this.#most
    })
  }
}

export class HeldShare {
  readonly #change: (by: number) => boolean
  #bytes = 0

  constructor(change: (by: number) => boolean) {
    this.#change = change
  }

  /** In place of what was taken before. @returns whether that is not too much for all connections together */
  take(bytes: number): boolean {
    const change = bytes - this.#bytes
    this.#bytes = bytes
    return this.#change(change)
  }

  release(): void {
    if (this.#bytes > 0) this.take(0)
  }
}
