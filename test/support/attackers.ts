import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** Opens many hostile connections to one server. */
export class Attackers {
  closed = 0
  /** Responses received on all connections, counted by their status line. */
  readonly answers = new Map<string, number>()
  readonly #port: number
  readonly #sockets = new Set<Socket>()
  #drip: NodeJS.Timeout | null = null

  /** @param url of the server under attack */
  constructor(url: string) {
    this.#port = Number(new URL(url).port)
  }

  get open(): number {
    return this.#sockets.size
  }

  /** Opens the connections and sends the opening bytes on each. Resolves when each is connected or was closed. */
  async come(count: number, opening = ''): Promise<void> {
    for (let come = 0; come < count; come += 500) {
      await Promise.all(Array.from({ length: Math.min(500, count - come) }, () => this.#come(opening)))
    }
  }

  /** Sends one byte on each connection, again and again. */
  drip(byte: string, everyMs: number): void {
    this.#drip = setInterval(() => {
      for (const socket of this.#sockets) socket.write(byte)
    }, everyMs)
  }

  leave(): void {
    if (this.#drip !== null) clearInterval(this.#drip)
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  async #come(opening: string): Promise<void> {
    const socket = connect(this.#port, '127.0.0.1').on('error', () => {})
    this.#sockets.add(socket)
    socket.on('close', () => {
      this.#sockets.delete(socket)
      this.closed++
    })
    socket.on('data', chunk => {
      const [line = ''] = chunk.toString('latin1').split('\r\n', 1)
      this.answers.set(line, (this.answers.get(line) ?? 0) + 1)
    })
    await Promise.race([once(socket, 'connect'), once(socket, 'close')])
    if (opening !== '') socket.write(opening)
  }
}
