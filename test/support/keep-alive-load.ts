import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { whenOver } from './patience.ts'

/** One request, and the body expected with 200. */
export interface Question {
  readonly bytes: string
  readonly expected: string
}

export interface LoadParts {
  readonly clients: number
  /** Address for the next connection. */
  readonly target: () => string
  readonly next: () => Question
  /** Maximum pause between a response and the client's next request, in ms. */
  readonly pauseMs?: number
  /** Whether a server is running; if not, clients wait. */
  readonly mayConnect?: () => boolean
}

const ANSWER_DEADLINE_MS = 20_000

/**
 * Clients that each keep one connection, send the next request as soon as they have a response, and reconnect when the
 * server announces that it closes the connection. They never retry: a request without a response counts as failed.
 */
export class KeepAliveLoad {
  sent = 0
  answered = 0
  connections = 0
  /** Open connections. */
  connected = 0
  /** Connections that ended after a response with `Connection: close`. */
  announcedCloses = 0
  /** Idle connections that the server closed without announcing it. */
  unannouncedCloses = 0
  readonly failed: string[] = []
  readonly wrong: string[] = []
  readonly #parts: LoadParts
  #running = true
  #asked = () => {}
  readonly #ended: Promise<unknown>

  constructor(parts: LoadParts) {
    this.#parts = parts
    this.#ended = Promise.all(Array.from({ length: parts.clients }, () => this.#client()))
  }

  /** Resolves when so many requests have completed or failed. */
  async reached(requests: number): Promise<void> {
    while (this.answered + this.failed.length < requests) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#asked = resolve
      await promise
    }
  }

  /** Waits for pending responses. */
  async stop(): Promise<void> {
    this.#running = false
    await this.#ended
  }

  async #client(): Promise<void> {
    while (this.#running) {
      if (this.#parts.mayConnect?.() === false) {
        await sleep(5)
        continue
      }
      const connection = new Connection(this.#parts.target())
      this.connections++
      this.connected++
      try {
        while (this.#running && !connection.isClosed) await this.#askOnce(connection)
      } catch (error) {
        this.failed.push(String(error))
      }
      if (connection.isClosing) this.announcedCloses++
      else if (this.#running) this.unannouncedCloses++
      connection.destroy()
      this.connected--
      this.#asked()
    }
  }

  async #askOnce(connection: Connection): Promise<void> {
    const { bytes, expected } = this.#parts.next()
    this.sent++
    const answer = await connection.exchange(bytes)
    if (answer.status !== 200 || answer.body !== expected) {
      this.wrong.push(`${answer.status} ${answer.body} instead of 200 ${expected}`)
    }
    this.answered++
    this.#asked()
    const { pauseMs } = this.#parts
    if (pauseMs !== undefined) await sleep(pauseMs * Math.random())
  }
}

interface Answered {
  readonly status: number
  readonly body: string
}

/** The part of HTTP that a fast client needs: responses have a Content-Length. */
class Connection {
  isClosing = false
  readonly #socket: Socket
  #received = ''
  #owed: PromiseWithResolvers<Answered> | null = null
  #closed = false

  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.#socket = connect({ host: hostname, port: Number(port), noDelay: true })
    this.#socket.on('data', chunk => this.#onData(chunk.toString('latin1')))
    this.#socket.on('error', error => this.#end(error))
    this.#socket.on('close', () => this.#end(new Error('closed without a response')))
  }

  get isClosed(): boolean {
    return this.#closed || this.isClosing
  }

  exchange(bytes: string): Promise<Answered> {
    this.#owed = Promise.withResolvers()
    this.#socket.write(bytes, 'latin1')
    const late = () => this.#end(new Error('no response within the deadline'))
    return this.#owed.promise.finally(whenOver(ANSWER_DEADLINE_MS, late))
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #end(error: Error): void {
    this.#closed = true
    const owed = this.#owed
    this.#owed = null
    owed?.reject(
      this.#received === '' ? error : new Error(`closed in the middle of a response: ${this.#received}`),
    )
  }

  #onData(text: string): void {
    this.#received += text
    const end = this.#received.indexOf('\r\n\r\n')
    if (end < 0) return
    const head = this.#received.slice(0, end)
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
    const body = this.#received.slice(end + 4)
    if (body.length < length) return
    this.isClosing = /\r\nconnection: close/i.test(head)
    this.#received = ''
    const owed = this.#owed
    this.#owed = null
    owed?.resolve({ status: Number(head.slice(9, 12)), body })
  }
}
