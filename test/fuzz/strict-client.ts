import { connect, type Socket } from 'node:net'
import { whenOver } from '../support/patience.ts'
import type { Seen } from './answer-law.ts'
import { readResponse } from './strict-answer.ts'

const PATIENCE_MS = 8_000

/** A client connection that accepts only responses that the strict parser accepts. */
export class StrictClient {
  readonly #socket: Socket
  #bytes = Buffer.alloc(0)
  #ended: Seen['ended'] = 'open'
  #wake = () => {}

  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.#socket = connect({ host: hostname, port: Number(port), noDelay: true })
    this.#socket
      .on('data', chunk => {
        this.#bytes = Buffer.concat([this.#bytes, chunk])
        this.#wake()
      })
      .on('error', () => {
        this.#ended = 'reset'
      })
      .on('close', () => {
        if (this.#ended === 'open') this.#ended = 'closed'
        this.#wake()
      })
  }

  /** Waits for a complete response, for bytes that cannot become one, or for the end. */
  async send(request: string): Promise<Seen> {
    this.#bytes = Buffer.alloc(0)
    this.#socket.write(request, 'latin1')
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = () => {
      const { kind } = readResponse(this.#bytes)
      if (this.#ended !== 'open' || kind === 'whole' || kind === 'broken') resolve()
    }
    const cancel = whenOver(PATIENCE_MS, resolve)
    this.#wake()
    await promise
    cancel()
    return { bytes: this.#bytes, ended: this.#ended }
  }

  destroy(): void {
    this.#socket.destroy()
  }
}
