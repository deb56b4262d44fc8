import type { UpstreamFailure } from '../failure.ts'
import type { BodySink } from '../pool/exchange-parties.ts'

/** Longer answers are passed on as they come, and to one caller only. */
export const MAX_SHARED_BYTES = 256 * 1024

export interface Collected {
  whole(body: Buffer): void
  /** It is longer than the bound. @returns as a sink's `write` */
  tooLong(begun: Buffer): boolean
  cut(failure: UpstreamFailure | null): void
}

/** A body up to the bound: nobody is given any of it before it is whole. */
export class Collector implements BodySink {
  readonly #to: Collected
  readonly #chunks: Buffer[] = []
  #length = 0

  constructor(to: Collected) {
    this.#to = to
  }

  write(chunk: Buffer): boolean {
    this.#length += chunk.length
    this.#chunks.push(chunk)
    return this.#length <= MAX_SHARED_BYTES || this.#to.tooLong(this.#begun())
  }

  end(): void {
    this.#to.whole(this.#begun())
  }

  cut(failure: UpstreamFailure | null): void {
    this.#to.cut(failure)
  }

  /** Mostly it came in one piece, which is a copy already. */
  #begun(): Buffer {
    const [first, ...others] = this.#chunks
    return first !== undefined && others.length === 0 ? first : Buffer.concat(this.#chunks)
  }
}
