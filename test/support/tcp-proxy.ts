import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { portOf } from './port-of.ts'

/** Towards the server, or back to the client. */
export type Direction = 'forth' | 'back'

interface Piece {
  readonly bytes: Buffer
  dueMs: number
}

/** One connection through the proxy: a client socket and a server socket. */
export class Link {
  /** First bytes from the client, enough to tell a subscriber from a reader. */
  opening = ''
  readonly #client: Socket
  readonly #server: Socket
  readonly #proxy: TcpProxy
  readonly #queues: Record<Direction, Piece[]> = { forth: [], back: [] }

  /** @param isHeld called for each chunk; held chunks stay in order */
  constructor(client: Socket, server: Socket, proxy: TcpProxy) {
    this.#client = client
    this.#server = server
    this.#proxy = proxy
    this.#pump('forth', client)
    this.#pump('back', server)
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      socket.on('error', () => {})
      socket.on('close', () => {
        if (!proxy.isHeld(this, 'forth') && !proxy.isHeld(this, 'back')) other.destroy()
      })
    }
  }

  get isSubscriber(): boolean {
    return /subscribe/i.test(this.opening)
  }

  /** Number of held chunks. */
  held(direction: Direction): number {
    return this.#queues[direction].length
  }

  /** Forwards what was held, including the end of either side. */
  resume(): void {
    for (const piece of Object.values(this.#queues).flat()) piece.dueMs = performance.now()
    this.#handOn('forth')
    this.#handOn('back')
    if (this.#client.destroyed) this.#server.destroy()
    if (this.#server.destroyed) this.#client.end()
  }

  cut(): void {
    // Node would never close a socket that is reset while its end is being sent.
    if (this.#client.writableEnded) this.#client.destroy()
    else this.#client.resetAndDestroy()
    this.#server.destroy()
  }

  #pump(direction: Direction, from: Socket): void {
    from.on('data', (bytes: Buffer) => {
      if (direction === 'forth' && this.opening.length < 4_096) this.opening += bytes.toString('latin1')
      this.#proxy.onPiece(direction, bytes, this)
      const delayMs = this.#proxy.delayMs[direction]
      // Never before the chunk ahead of it, which may be delayed for longer.
      const earliestMs = this.#queues[direction].at(-1)?.dueMs ?? 0
      const dueMs = Math.max(earliestMs, performance.now() + delayMs)
      this.#queues[direction].push({ bytes, dueMs })
      if (delayMs === 0) this.#handOn(direction)
      else setTimeout(() => this.#handOn(direction), delayMs + 1)
    })
  }

  /** Keeps the order: a chunk that is not yet due delays those after it. */
  #handOn(direction: Direction): void {
    if (this.#proxy.isHeld(this, direction)) return
    const to = direction === 'forth' ? this.#server : this.#client
    const queue = this.#queues[direction]
    for (let next = queue[0]; next !== undefined && next.dueMs <= performance.now(); next = queue[0]) {
      this.#proxy.onHandedOn(performance.now() - next.dueMs)
      to.write(next.bytes)
      queue.shift()
    }
  }
}

/** A TCP proxy that can delay bytes, hold one direction or drop connections, without either side noticing. */
export class TcpProxy {
  /** Delay of each chunk. */
  readonly delayMs: Record<Direction, number> = { forth: 0, back: 0 }
  readonly links = new Set<Link>()
  /** Called for each chunk that arrives, held or not. The connection distinguishes it from those of others. */
  onPiece: (direction: Direction, bytes: Buffer, connection: object) => void = () => {}
  /** Called for each chunk that is forwarded, with how much later than its delay it is. */
  onHandedOn: (lateMs: number) => void = () => {}
  readonly #server: Server
  #target: number
  readonly #held: Record<Direction, (link: Link) => boolean> = { forth: () => false, back: () => false }

  private constructor(targetPort: number) {
    this.#target = targetPort
    this.#server = createServer({ noDelay: true }, client => this.#join(client))
  }

  /**
   * @param url of a server on this machine
   * @param port to listen on; a free one by default
   */
  static async start(url: string, port = 0): Promise<TcpProxy> {
    const proxy = new TcpProxy(Number(new URL(url).port))
    proxy.#server.listen(port, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return portOf(this.#server)
  }

  isHeld(link: Link, direction: Direction): boolean {
    return this.#held[direction](link)
  }

  /** Holds all chunks of matching connections until `resume`. Neither side notices. */
  hold(direction: Direction, which: (link: Link) => boolean = () => true): void {
    this.#held[direction] = which
  }

  resume(): void {
    for (const direction of ['forth', 'back'] as const) this.#held[direction] = () => false
    for (const link of this.links) link.resume()
  }

  /** New connections lead to this server; open ones stay. */
  leadTo(url: string): void {
    this.#target = Number(new URL(url).port)
  }

  /** Closes all connections; held chunks are lost. */
  cut(): void {
    for (const link of this.links) link.cut()
  }

  async stop(): Promise<void> {
    this.cut()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #join(client: Socket): void {
    const server = connect({ host: '127.0.0.1', port: this.#target, noDelay: true })
    const link = new Link(client, server, this)
    this.links.add(link)
    for (const socket of [client, server]) {
      socket.on('close', () => {
        if (client.destroyed && server.destroyed) this.links.delete(link)
      })
    }
  }
}
