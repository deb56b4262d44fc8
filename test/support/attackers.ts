import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** Many connections of people who mean no good. */
export class Attackers {
  closed = 0
  /** Answers that any of them got, by the first line. */
  readonly answers = new Map<string, number>()
  readonly #port: number
  readonly #sockets = new Set<Socket>()
  #drip: NodeJS.Timeout | null = null

  /** @param url of what is attacked */
  constructor(url: string) {
    this.#port = Number(new URL(url).port)
  }

  get open(): number {
    return this.#sockets.size
  }

  /** Each connects and says this much; it resolves when all are connected, or were turned away. */
  async come(count: number, opening = ''): Promise<void> {
    for (let come = 0; come < count; come += 500) {
      await Promise.all(Array.from({ length: Math.min(500, count - come) }, () => this.#come(opening)))
    }
  }

  /** From now on each says one byte more at a time. */
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
