import { EventEmitter, once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'
import { portOf } from './port-of.ts'

/** One request as received, and the means to respond byte by byte. */
export interface ScriptedRequest {
  /** The exact bytes of the head. */
  readonly head: string
  readonly target: string
  readonly headers: ReadonlyMap<string, string>
  /** Counted from 0 over all connections, and within its connection. */
  readonly number: number
  readonly numberOnConnection: number
  readonly connection: number
  readonly socket: Socket
  send(...parts: (string | Buffer)[]): void
}

export type Script = (request: ScriptedRequest) => void

/** An upstream that records requests and responds with arbitrary bytes. */
export interface ScriptedUpstream {
  readonly url: string
  readonly port: number
  readonly requests: ScriptedRequest[]
  readonly sockets: Socket[]
  script: Script
  /** Bytes sent on each new connection before any request. */
  greeting: string
  /** Resolves when so many requests have been received. */
  received(count: number): Promise<void>
  /** Resolves when so many connections have closed. */
  disconnected(count: number): Promise<void>
  stop(): Promise<void>
}

export const json = (body: string, headers = '') =>
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`

export async function startScriptedUpstream(
  script: Script,
  tls?: TlsOptions,
  { host = '127.0.0.1', port = 0 } = {},
): Promise<ScriptedUpstream> {
  const events = new EventEmitter().setMaxListeners(0)
  const upstream = new Scripted(script, events)
  const accept = (socket: Socket) => upstream.accept(socket)
  const server = tls === undefined ? createServer(accept) : createTlsServer(tls, accept)
  server.on('tlsClientError', () => {})
  await once(server.listen(port, host), 'listening')
  return upstream.listening(server, tls === undefined ? 'http' : 'https')
}

class Scripted implements ScriptedUpstream {
  readonly requests: ScriptedRequest[] = []
  readonly sockets: Socket[] = []
  script: Script
  greeting = ''
  url = ''
  port = 0
  #closed = 0
  #server: Server | null = null
  readonly #events: EventEmitter

  constructor(script: Script, events: EventEmitter) {
    this.script = script
    this.#events = events
  }

  listening(server: Server, scheme: string): this {
    this.#server = server
    this.port = portOf(server)
    this.url = `${scheme}://${(server.address() as AddressInfo).address}:${this.port}`
    return this
  }

  accept(socket: Socket): void {
    const connection = this.sockets.push(socket) - 1
    let buffered = ''
    let count = 0
    socket.setNoDelay(true).on('error', () => {})
    if (this.greeting !== '') socket.write(this.greeting)
    socket.on('close', () => {
      this.#closed += 1
      this.#events.emit('change')
    })
    socket.on('data', chunk => {
      buffered += chunk.toString('latin1')
      for (let end = buffered.indexOf('\r\n\r\n'); end >= 0; end = buffered.indexOf('\r\n\r\n')) {
        this.#accept(socket, connection, count++, buffered.slice(0, end + 4))
        buffered = buffered.slice(end + 4)
      }
    })
  }

  async received(count: number): Promise<void> {
    while (this.requests.length < count) await once(this.#events, 'change')
  }

  async disconnected(count: number): Promise<void> {
    while (this.#closed < count) await once(this.#events, 'change')
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy()
    const server = this.#server
    if (server?.listening) await new Promise(resolve => server.close(resolve))
  }

  #accept(socket: Socket, connection: number, numberOnConnection: number, head: string): void {
    const [line = '', ...fields] = head.trimEnd().split('\r\n')
    const request: ScriptedRequest = {
      head,
      target: line.split(' ')[1] ?? '',
      headers: new Map(
        fields.map(field => [
          field.slice(0, field.indexOf(':')).toLowerCase(),
          field.slice(field.indexOf(':') + 1).trim(),
        ]),
      ),
      number: this.requests.length,
      numberOnConnection,
      connection,
      socket,
      send: (...parts) => {
        for (const part of parts) socket.write(part)
      },
    }
    this.requests.push(request)
    this.#events.emit('change')
    this.script(request)
  }
}
