import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { AnswerPlan } from './answer-plans.ts'

const REQUEST_ID = /^x-request-id: (.*)$/im

export const CLEAN = 'clean-'

/** An upstream with a planned response for each request id, and a valid one otherwise. It stores no request. */
export class PlannedUpstream {
  readonly plans = new Map<string, AnswerPlan>()
  /** Duration of a whole plan, in ms. */
  readonly tookMs = new Map<string, number>()
  /** The response before it on the same connection. */
  readonly before = new Map<string, string>()
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor() {
    this.#server = createServer({ noDelay: true }, socket => this.#serve(socket))
  }

  static async start(): Promise<PlannedUpstream> {
    const upstream = new PlannedUpstream()
    await once(upstream.#server.listen(0, '127.0.0.1'), 'listening')
    return upstream
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  forget(id: string): void {
    for (const known of [this.plans, this.tookMs, this.before]) known.delete(id)
    this.before.delete(CLEAN + id)
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise(resolve => this.#server.close(resolve))
  }

  #serve(socket: Socket): void {
    let pending = ''
    let last = 'nothing'
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
    socket.on('data', chunk => {
      pending += chunk.toString('latin1')
      for (let end = pending.indexOf('\r\n\r\n'); end >= 0; end = pending.indexOf('\r\n\r\n')) {
        const id = REQUEST_ID.exec(pending.slice(0, end))?.[1] ?? ''
        pending = pending.slice(end + 4)
        this.before.set(id, last)
        last = id
        this.#answer(id, socket)
      }
    })
  }

  #answer(id: string, socket: Socket): void {
    const plan = this.plans.get(id)
    const startMs = performance.now()
    if (plan === undefined) socket.write(honestAnswer(id))
    else void play(plan, socket).then(() => this.tookMs.set(id, performance.now() - startMs))
  }
}

async function play(plan: AnswerPlan, socket: Socket): Promise<void> {
  const bytes = Buffer.from(plan.bytes, 'latin1')
  let from = 0
  for (const length of plan.pieces) {
    socket.write(bytes.subarray(from, from + length))
    from += length
    // Long enough for the piece to be read separately, in most cases.
    await new Promise(resolve => setTimeout(resolve, 1))
    if (socket.destroyed) return
  }
  const rest = bytes.subarray(from)
  if (plan.after === 'end') socket.end(rest)
  else if (plan.after === 'reset') socket.write(rest, () => socket.resetAndDestroy())
  else socket.write(rest)
}

function honestAnswer(id: string): string {
  const body = `"${id}"`
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}
