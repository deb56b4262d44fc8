import type { UpstreamFailure } from '../failure.ts'
import type { BodySink } from '../pool/exchange-parties.ts'

/** A longer response is streamed to one client. */
export const MAX_BUFFERED_BYTES = 256 * 1024

export interface BufferingOutcomes {
  complete(body: Buffer): void
  /** @returns sink for the complete body; null if it is not needed */
  tooLong(): BodySink | null
  fail(failure: UpstreamFailure | null): void
}

/** Buffers a body up to `MAX_BUFFERED_BYTES`, so that no client receives an incomplete one. */
export class BufferingSink implements BodySink {
  readonly #outcomes: BufferingOutcomes
  #chunks: Buffer[] = []
  #length = 0
  /** Receives a body that is too long to be buffered. */
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

  /** Copied: a chunk keeps the whole read alive, with the head, which the memory limit does not count. */
  #takeBody(): Buffer {
    const body = Buffer.allocUnsafeSlow(this.#length)
    let at = 0
    for (const chunk of this.#chunks) at += chunk.copy(body, at)
    this.#chunks = []
    return body
  }
}
