import { connect, type Socket } from 'node:net'

/** Bytes that a slow reader reads at a time, and the interval. */
const SIP_BYTES = 4 * 1024
const SIP_EVERY_MS = 50
const AGAIN_AFTER_MS = 100

/**
 * Clients that hold connections as long as they can: they send a request, read the response a few bytes at a time, and
 * start over when it has ended or their connection was closed.
 */
export class GreedyClients {
  /** Rejected requests, and connections that the gateway closed. */
  refused = 0
  cut = 0
  readonly #port: number
  readonly #request: string
  readonly #sockets = new Set<Socket>()
  readonly #sips: NodeJS.Timeout
  #ended = false

  /** @param url of the server */
  constructor(url: string, request: string) {
    this.#port = Number(new URL(url).port)
    this.#request = request
    this.#sips = setInterval(() => this.#sip(), SIP_EVERY_MS)
  }

  connect(count: number): void {
    for (let opened = 0; opened < count; opened++) this.#connect()
  }

  disconnect(): void {
    this.#ended = true
    clearInterval(this.#sips)
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  #connect(): void {
    if (this.#ended) return
    const socket = connect(this.#port, '127.0.0.1').on('error', () => {})
    // Reads only in #sip.
    socket.on('readable', () => {})
    this.#sockets.add(socket)
    socket.write(this.#request)
    socket.on('close', () => {
      this.#sockets.delete(socket)
      this.cut++
      setTimeout(() => this.#connect(), AGAIN_AFTER_MS)
    })
  }

  #sip(): void {
    for (const socket of this.#sockets) {
      const bytes: Buffer | null = socket.read(Math.min(SIP_BYTES, socket.readableLength))
      if (bytes?.toString('latin1', 0, 12) !== 'HTTP/1.1 503') continue
      this.refused++
      setTimeout(() => socket.write(this.#request), AGAIN_AFTER_MS)
    }
  }
}
