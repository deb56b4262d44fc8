import { once } from 'node:events'
import { createServer, request as forward, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { portOf } from './port-of.ts'

/** A forward proxy as companies run them: it alone resolves the names of the test, and may ask for user and password. */
export class ForwardProxy {
  /** `CONNECT host:port` or `GET http://host:port/path`, in their order. */
  readonly requests: string[] = []
  /** Ports by `host:port`. Everything else is a host that the proxy does not find: 502. */
  readonly routes = new Map<string, number>()
  /** `user:password` that it demands. */
  login: string | null = null
  /** Responds with this status to everything. */
  refusesWith: number | null = null
  /** Accepts requests and never responds. */
  hangs = false
  readonly #server = createServer((request, response) => this.#forward(request, response))
  readonly #sockets = new Set<Socket>()

  static async start(): Promise<ForwardProxy> {
    const proxy = new ForwardProxy()
    const server = proxy.#server
    server.on('connection', (socket: Socket) => {
      proxy.#sockets.add(socket.on('error', () => {}).on('close', () => proxy.#sockets.delete(socket)))
    })
    // The socket of a CONNECT is always one of net.
    server.on('connect', (request, socket) => proxy.#tunnel(request, socket as Socket))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return proxy
  }

  get port(): number {
    return portOf(this.#server)
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  stop(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  #refusalOf({ headers }: IncomingMessage, place: string): number | null {
    if (this.refusesWith !== null) return this.refusesWith
    const expected = this.login === null ? undefined : `Basic ${Buffer.from(this.login).toString('base64')}`
    if (expected !== undefined && headers['proxy-authorization'] !== expected) return 407
    return this.routes.has(place) ? null : 502
  }

  #tunnel(request: IncomingMessage, socket: Socket): void {
    const place = request.url ?? ''
    this.requests.push(`CONNECT ${place}`)
    if (this.hangs) return
    const refusal = this.#refusalOf(request, place)
    if (refusal !== null) {
      socket.end(`HTTP/1.1 ${refusal} Refused\r\nContent-Length: 0\r\n\r\n`)
      return
    }
    const target = connect(this.routes.get(place) ?? 0, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      socket.pipe(target).pipe(socket)
    })
    target.on('error', () => socket.destroy())
    socket.on('error', () => target.destroy())
  }

  #forward(request: IncomingMessage, response: ServerResponse): void {
    const url = URL.parse(request.url ?? '')
    this.requests.push(`${request.method} ${request.url}`)
    if (this.hangs) return
    const place = url === null ? '' : `${url.hostname}:${url.port || 80}`
    const refusal = url === null ? 400 : this.#refusalOf(request, place)
    if (url === null || refusal !== null) {
      response.writeHead(refusal ?? 400).end()
      return
    }
    const { 'proxy-authorization': _, ...headers } = request.headers
    const target = forward({
      ...{ host: '127.0.0.1', port: this.routes.get(place), method: request.method, headers },
      path: url.pathname + url.search,
    })
    target.on('response', answer => answer.pipe(response.writeHead(answer.statusCode ?? 502, answer.headers)))
    target.on('error', () => response.destroy())
    request.pipe(target)
  }
}
