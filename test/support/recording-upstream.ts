import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { portOf } from './port-of.ts'

/** Body of the default response. */
const DEFAULT_BODY = '{"id":"ws_1"}'

/**
 * An upstream at the level of bytes: it records each request as received and sends the configured response. It parses
 * nothing beyond the empty line that ends a head, so that a parser cannot hide any byte.
 */
export class RecordingUpstream {
  /** Each request as received, byte for byte. */
  readonly requests: string[] = []
  /** Bytes of the response to a request. */
  answer: (request: string) => string | Buffer = () => jsonAnswer(200, DEFAULT_BODY)
  /** Delays the response to a request until the promise resolves. */
  hold: (request: string) => Promise<void> | undefined = () => undefined
  /** Whether the connection closes after each response. */
  endAfterAnswer = false
  /** Connections closed so far. */
  ended = 0
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Of open and closed connections. */
  readonly #remainders = new Map<Socket, string>()

  private constructor() {
    this.#server = createServer(socket => this.#serve(socket))
  }

  /** @param port to listen on; a free one by default */
  static async start(port = 0): Promise<RecordingUpstream> {
    const upstream = new RecordingUpstream()
    upstream.#server.listen(port, '127.0.0.1')
    await once(upstream.#server, 'listening')
    return upstream
  }

  get url(): string {
    return `http://127.0.0.1:${portOf(this.#server)}`
  }

  /** Bytes behind the last complete head of each connection: another server could take them for a body or a request. */
  get remainders(): readonly string[] {
    return [...this.#remainders.values()].filter(bytes => bytes !== '')
  }

  /** Discards what was recorded and restores the defaults. */
  reset(): void {
    this.forget()
    this.answer = () => jsonAnswer(200, DEFAULT_BODY)
    this.hold = () => undefined
    this.endAfterAnswer = false
  }

  /** Discards what was recorded. */
  forget(): void {
    this.requests.length = 0
    this.#remainders.clear()
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #serve(socket: Socket): void {
    let pending = ''
    this.#sockets.add(socket)
    socket.on('close', () => {
      this.ended++
      this.#sockets.delete(socket)
    })
    socket.on('error', () => {})
    socket.on('data', chunk => {
      pending += chunk.toString('latin1')
      for (let end = pending.indexOf('\r\n\r\n'); end >= 0; end = pending.indexOf('\r\n\r\n')) {
        const request = pending.slice(0, end + 4)
        pending = pending.slice(end + 4)
        this.requests.push(request)
        void this.#reply(socket, request)
      }
      if (pending === '') this.#remainders.delete(socket)
      else this.#remainders.set(socket, pending)
    })
  }

  async #reply(socket: Socket, request: string): Promise<void> {
    await this.hold(request)
    if (socket.destroyed) return
    const answer = this.answer(request)
    const bytes = typeof answer === 'string' ? Buffer.from(answer, 'latin1') : answer
    if (this.endAfterAnswer) socket.end(bytes)
    else socket.write(bytes)
  }
}

export function jsonAnswer(status: number, body: string, ...lines: string[]): string {
  return rawAnswer(status, body, 'Content-Type: application/json', ...lines)
}

export function rawAnswer(status: number, body: string, ...lines: string[]): string {
  return [
    `HTTP/1.1 ${status} X`,
    `Content-Length: ${Buffer.byteLength(body, 'latin1')}`,
    ...lines,
    '',
    body,
  ].join('\r\n')
}
