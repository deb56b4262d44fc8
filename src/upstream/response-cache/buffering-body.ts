import type { UpstreamFailure } from '../failure.ts'
import type { BodySink } from '../pool/exchange-parties.ts'

/** A longer response is streamed, to one client only. */
export const MAX_BUFFERED_BYTES = 256 * 1024

export interface BufferingOutcomes {
  complete(body: Buffer): void
  /** @returns where the body goes instead, from its first byte on; null where it is not wanted */
  tooLong(): BodySink | null
  fail(failure: UpstreamFailure | null): void
}

/** Buffers a body up to the bound, so that no client receives a part of it before it is complete. */
export class BufferingBody implements BodySink {
  readonly #outcomes: BufferingOutcomes
  #chunks: Buffer[] = []
  #length = 0
  /** Receives a body that was too long. */
  #next: BodySink | null = null

  constructor(outcomes: BufferingOutcomes) {
    this.#outcomes = outcomes
  }

  write(chunk: Buffer): 'continue' | 'pause' | 'discard' {
    if (this.#next !== null) return this.#next.write(chunk)
    this.#length += chunk.length
    this.#chunks.push(chunk)
    if (this.#length <= MAX_BUFFERED_BYTES) return 'continue'
    this.#next = this.#outcomes.tooLong()
    return this.#next?.write(this.#takeBody()) ?? 'discard'
  }

  end(): void {
    if (this.#next === null) this.#outcomes.complete(this.#takeBody())
    else this.#next.end()
  }

  fail(failure: UpstreamFailure | null): void {
    const next = this.#next ?? this.#outcomes
    next.fail(failure)
  }

  /** A single chunk is a copy already. */
  #takeBody(): Buffer {
    const [first, ...others] = this.#chunks
    const body = first !== undefined && others.length === 0 ? first : Buffer.concat(this.#chunks)
    this.#chunks = []
    return body
  }
}
