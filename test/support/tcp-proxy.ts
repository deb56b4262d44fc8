import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** Towards the server, or back to the client. */
export type Direction = 'forth' | 'back'

interface Piece {
  readonly bytes: Buffer
  readonly dueMs: number
}

/** One connection through the proxy, a stream to each side. */
export class Link {
  /** What the client has said first: enough to tell a connection that subscribes from one that reads. */
  opening = ''
  readonly #client: Socket
  readonly #server: Socket
  readonly #proxy: TcpProxy
  readonly #queues: Record<Direction, Piece[]> = { forth: [], back: [] }

  /** @param isHeld asked for each piece; what is held stays in order */
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

  /** How many pieces wait. */
  held(direction: Direction): number {
    return this.#queues[direction].length
  }

  /** Hands on what was held, also that a side has gone. */
  resume(): void {
    this.#handOn('forth')
    this.#handOn('back')
    if (this.#client.destroyed) this.#server.destroy()
    if (this.#server.destroyed) this.#client.end()
  }

  cut(): void {
    this.#client.resetAndDestroy()
    this.#server.destroy()
  }

  #pump(direction: Direction, from: Socket): void {
    from.on('data', (bytes: Buffer) => {
      if (direction === 'forth' && this.opening.length < 4_096) this.opening += bytes.toString('latin1')
      this.#proxy.onPiece(direction, bytes)
      const delayMs = this.#proxy.delayMs[direction]
      this.#queues[direction].push({ bytes, dueMs: performance.now() + delayMs })
      if (delayMs === 0) this.#handOn(direction)
      else setTimeout(() => this.#handOn(direction), delayMs + 1)
    })
  }

  /** In order, whatever the delays: what is not yet due keeps back what came after it. */
  #handOn(direction: Direction): void {
    if (this.#proxy.isHeld(this, direction)) return
    const to = direction === 'forth' ? this.#server : this.#client
    const queue = this.#queues[direction]
    for (let next = queue[0]; next !== undefined && next.dueMs <= performance.now(); next = queue[0]) {
      to.write(next.bytes)
      queue.shift()
    }
  }
}

/** A proxy between two parts that a test can make slow, silent in one direction, or gone, without either side being told. */
export class TcpProxy {
  /** Each piece is handed on so much later. */
  readonly delayMs: Record<Direction, number> = { forth: 0, back: 0 }
  readonly links = new Set<Link>()
  /** Told of each piece that comes, held or not. */
  onPiece: (direction: Direction, bytes: Buffer) => void = () => {}
  readonly #server: Server
  readonly #target: number
  readonly #held: Record<Direction, (link: Link) => boolean> = { forth: () => false, back: () => false }

  private constructor(targetPort: number) {
    this.#target = targetPort
    this.#server = createServer({ noDelay: true }, client => this.#join(client))
  }

  /**
   * @param url whose host is this machine
   * @param port its own; a free one, unless it is given
   */
  static async start(url: string, port = 0): Promise<TcpProxy> {
    const proxy = new TcpProxy(Number(new URL(url).port))
    proxy.#server.listen(port, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  isHeld(link: Link, direction: Direction): boolean {
    return this.#held[direction](link)
  }

  /** From now on nothing passes, and neither side is told. What is held is handed on by `resume`. */
  hold(direction: Direction, which: (link: Link) => boolean = () => true): void {
    this.#held[direction] = which
  }

  resume(): void {
    for (const direction of ['forth', 'back'] as const) this.#held[direction] = () => false
    for (const link of this.links) link.resume()
  }

  /** What was held is lost with its connections. */
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
