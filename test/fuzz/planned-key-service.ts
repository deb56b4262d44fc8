import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { finalAnswer } from './answer-law.ts'
import type { RecordPlan } from './record-plans.ts'

const LENGTH = /^content-length: (\d+)$/im

/** A key service with a planned response for each key, alone or in a batch. */
export class PlannedKeyService {
  /** By digest. */
  readonly plans = new Map<string, RecordPlan>()
  /** Keys that were looked up in batches. */
  inBatches = 0
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor() {
    this.#server = createServer({ noDelay: true }, socket => this.#serve(socket))
  }

  static async start(): Promise<PlannedKeyService> {
    const keyService = new PlannedKeyService()
    await once(keyService.#server.listen(0, '127.0.0.1'), 'listening')
    return keyService
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise(resolve => this.#server.close(resolve))
  }

  #serve(socket: Socket): void {
    let pending = ''
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
    socket.on('data', chunk => {
      pending += chunk.toString('latin1')
      for (let end = endOf(pending); end !== null; end = endOf(pending)) {
        this.#answer(pending.slice(0, end), socket)
        pending = pending.slice(end)
      }
    })
  }

  #answer(request: string, socket: Socket): void {
    if (request.startsWith('POST ')) {
      socket.write(this.#batch(request.slice(request.indexOf('\r\n\r\n') + 4)), 'latin1')
      return
    }
    const digest = /^GET \S*\/([0-9a-f]{64}) /.exec(request)?.[1] ?? ''
    const { bytes, after } = this.plans.get(digest)?.keyService ?? { bytes: NOTHING, after: 'end' }
    if (after === 'end') socket.end(bytes, 'latin1')
    else socket.write(bytes, 'latin1')
  }

  /** The planned responses of the keys as one batch; keys without complete JSON are left out. */
  #batch(body: string): string {
    const { digests = [] } = JSON.parse(body) as { digests?: string[] }
    this.inBatches += digests.length
    const entries = digests.flatMap(digest => {
      const saying = this.#sayingOf(digest)
      return saying === null ? [] : [`"${digest}":${saying}`]
    })
    const json = `{"records":{${entries.join(',')}}}`
    return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n${json}`
  }

  #sayingOf(digest: string): string | null {
    const plan = this.plans.get(digest)
    if (plan === undefined) return null
    const read = finalAnswer(Buffer.from(plan.keyService.bytes, 'latin1'))
    const ends = read.kind === 'until_close' && plan.keyService.after === 'end'
    if (read.kind !== 'whole' && !ends) return null
    const text = read.body.toString('latin1')
    try {
      const json: unknown = JSON.parse(read.body.toString('utf8'))
      if (read.head.status === 200) return text
      return read.head.status === 404 && (json as { code?: unknown } | null)?.code === 'not_found'
        ? 'null'
        : null
    } catch {
      return null
    }
  }
}

const NOTHING = 'HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n{}'

/** Position after the first request and its body; null while it is incomplete. */
function endOf(pending: string): number | null {
  const headEnd = pending.indexOf('\r\n\r\n')
  if (headEnd < 0) return null
  const end = headEnd + 4 + Number(LENGTH.exec(pending.slice(0, headEnd))?.[1] ?? 0)
  return pending.length < end ? null : end
}
