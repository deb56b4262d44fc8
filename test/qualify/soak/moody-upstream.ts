import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'

export type Mood = 'well' | 'slow' | 'silent' | 'resetting' | 'cutting' | 'garbage' | 'failing'

const SLOW_MS = 150

/**
 * An upstream that names the request in each response, so that a response to the wrong client is detected, and that can
 * misbehave in one way at a time. It stores no request.
 */
export class MoodyUpstream {
  mood: Mood = 'well'
  requests = 0
  #server: Server
  #port = 0
  readonly #sockets = new Set<Socket>()

  private constructor() {
    this.#server = createServer(socket => this.#serve(socket))
  }

  static async start(): Promise<MoodyUpstream> {
    const upstream = new MoodyUpstream()
    await upstream.#listen()
    return upstream
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** Closes all connections and accepts no new ones. */
  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.resetAndDestroy()
    await new Promise(resolve => this.#server.close(resolve))
  }

  /** Listens on the same port again. */
  async comeBack(): Promise<void> {
    this.#server = createServer(socket => this.#serve(socket))
    await this.#listen()
  }

  async #listen(): Promise<void> {
    await once(this.#server.listen(this.#port, '127.0.0.1'), 'listening')
    this.#port = (this.#server.address() as AddressInfo).port
  }

  #serve(socket: Socket): void {
    let pending = ''
    this.#sockets.add(socket)
    socket.setNoDelay(true).on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
    socket.on('data', chunk => {
      pending += chunk.toString('latin1')
      for (let end = pending.indexOf('\r\n\r\n'); end >= 0; end = pending.indexOf('\r\n\r\n')) {
        const head = pending.slice(0, end)
        pending = pending.slice(end + 4)
        this.requests++
        this.#answer(socket, head)
      }
    })
  }

  #answer(socket: Socket, head: string): void {
    const answer = honestAnswer(head)
    switch (this.mood) {
      case 'well':
        socket.write(answer)
        break
      case 'slow':
        setTimeout(() => socket.write(answer), SLOW_MS)
        break
      case 'silent':
        break
      case 'resetting':
        socket.resetAndDestroy()
        break
      case 'cutting':
        socket.end(answer.slice(0, -9))
        break
      case 'garbage':
        socket.write('SSH-2.0-OpenSSH_9.2\r\n\r\n')
        break
      case 'failing':
        socket.write('HTTP/1.1 500 Oh\r\nContent-Length: 8\r\n\r\n"broken"')
        break
    }
  }
}

/** Names the request as the gateway forwarded it. Every fourth response is chunked. */
function honestAnswer(head: string): string {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]?.trim() ?? ''
  const request = field('x-request-id')
  const body = JSON.stringify({
    workspace: field('x-postern-workspace-id'),
    request,
    pad: 'x'.repeat(request.length * 40),
  })
  const type = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
  if (!request.endsWith('0')) return `${type}Content-Length: ${body.length}\r\n\r\n${body}`
  return `${type}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
}
