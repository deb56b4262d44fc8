import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** Opens many hostile connections to one server. */
export class Attackers {
  closed = 0
  /** Responses received on all connections, counted by their status line. */
  readonly answers = new Map<string, number>()
  readonly #port: number
  readonly #sockets = new Set<Socket>()
  #dripTimer: NodeJS.Timeout | null = null

  /** @param url of the server under attack */
  constructor(url: string) {
    this.#port = Number(new URL(url).port)
  }

  get open(): number {
    return this.#sockets.size
  }

  /** Opens the connections and sends the opening bytes on each. Resolves when each is connected or was closed. */
  async connect(count: number, opening = ''): Promise<void> {
    for (let opened = 0; opened < count; opened += 500) {
      await Promise.all(
        Array.from({ length: Math.min(500, count - opened) }, () => this.#connectOne(opening)),
      )
    }
  }

  /** Sends one byte on each connection, again and again. */
  sendRepeatedly(byte: string, everyMs: number): void {
    this.#dripTimer = setInterval(() => {
      for (const socket of this.#sockets) socket.write(byte)
    }, everyMs)
  }

  disconnect(): void {
    if (this.#dripTimer !== null) clearInterval(this.#dripTimer)
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  async #connectOne(opening: string): Promise<void> {
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
