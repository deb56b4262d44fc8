import { connect } from 'node:net'
import { Pool } from 'undici'
import type { HeldKey, KeyRing } from './key-ring.ts'
import { type Asked, judge } from './verdict.ts'

export interface Totals {
  sent: number
  right: number
  /** Failures that are allowed during a fault, and such failures without a fault. */
  failed: number
  failedUnexcused: number
  /** The client disconnected, or the connection ended before the response did. */
  cut: number
  readonly wrong: string[]
}

const CONNECTIONS = 24
/** Requests with a key that may be revoked before the response. */
const OF_LIVE_KEY: ReadonlySet<Asked['kind']> = new Set(['own', 'self', 'foreign', 'bad_query'])
const PAUSE_MS = 2

/** Clients of all kinds that send requests continuously and record every wrong response. */
export class MixedLoad {
  readonly totals: Totals = { sent: 0, right: 0, failed: 0, failedUnexcused: 0, cut: 0, wrong: [] }
  readonly #url: string
  readonly #keys: KeyRing
  readonly #pool: Pool
  /** Whether a fault is active, or was a moment ago. */
  readonly #excused: () => boolean
  readonly #clients: Promise<void>[]
  #running = true

  constructor(url: string, keys: KeyRing, excused: () => boolean) {
    this.#url = url
    this.#keys = keys
    this.#excused = excused
    this.#pool = new Pool(url, { connections: CONNECTIONS, headersTimeout: 20_000, bodyTimeout: 20_000 })
    this.#clients = Array.from({ length: CONNECTIONS }, () => this.#send())
  }

  async stop(): Promise<void> {
    this.#running = false
    await Promise.all(this.#clients)
    await this.#pool.destroy()
  }

  async #send(): Promise<void> {
    while (this.#running) {
      const random = Math.random()
      if (random < 0.02) await this.#leaveEarly()
      else if (random < 0.03) await this.#talkNonsense()
      else await this.#askOnce(random)
      await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
    }
  }

  async #askOnce(random: number): Promise<void> {
    const key = this.#keys.anyLive()
    if (key === undefined) return
    const requestId = `q${this.totals.sent++}`
    const { secret, target, asked } = this.#choose(random, key, requestId)
    const excused = this.#excused()
    try {
      const response = await this.#pool.request({
        method: 'GET',
        path: target,
        headers: { authorization: `Bearer ${secret}`, 'x-request-id': requestId },
      })
      const body = await response.body.text()
      this.#note(judge(asked, { status: response.statusCode, body }), asked, key, excused)
    } catch {
      this.totals.cut++
    }
  }

  #note(verdict: ReturnType<typeof judge>, asked: Asked, key: HeldKey, excused: boolean): void {
    // The key was revoked in the meantime: no response is expected.
    const revokedMeanwhile = OF_LIVE_KEY.has(asked.kind) && !this.#keys.isLive(key)
    if (verdict.kind === 'right' || revokedMeanwhile) this.totals.right++
    else if (verdict.kind === 'wrong') this.totals.wrong.push(`${asked.kind}: ${verdict.why}`)
    else if (excused || this.#excused()) this.totals.failed++
    else this.totals.failedUnexcused++
  }

  #choose(random: number, key: HeldKey, requestId: string): { secret: string; target: string; asked: Asked } {
    const { secret, workspaceId } = key
    const workspace = (id: string, more = '') => `/api/v1/workspaces/${id}${more}`
    if (random < 0.1) return { secret, target: workspace('ws_other'), asked: { kind: 'foreign' } }
    if (random < 0.15)
      return { secret, target: workspace(workspaceId, '/files?limit=0'), asked: { kind: 'bad_query' } }
    if (random < 0.2)
      return { secret: this.#keys.forged(), target: '/api/v1/auth', asked: { kind: 'forged' } }
    if (random < 0.23)
      return { secret: this.#keys.unissued(), target: '/api/v1/auth', asked: { kind: 'unissued' } }
    if (random < 0.4) return { secret, target: '/api/v1/auth', asked: { kind: 'self', workspaceId } }
    const revoked = random < 0.45 ? this.#keys.anyRevoked() : undefined
    if (revoked !== undefined) {
      return { secret: revoked.secret, target: workspace(revoked.workspaceId), asked: { kind: 'revoked' } }
    }
    const target = workspace(workspaceId, random < 0.7 ? '' : '/files?limit=9')
    return { secret, target, asked: { kind: 'own', workspaceId, requestId } }
  }

  /** Sends a request and disconnects at a random moment. */
  #leaveEarly(): Promise<void> {
    const key = this.#keys.anyLive()
    const target = `/api/v1/workspaces/${key?.workspaceId}`
    return this.#touch(
      `GET ${target} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${key?.secret}\r\n\r\n`,
      Math.random() * 5,
    )
  }

  #talkNonsense(): Promise<void> {
    return this.#touch(
      'GET / HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
      5,
    )
  }

  async #touch(bytes: string, leaveAfterMs: number): Promise<void> {
    this.totals.sent++
    const { hostname, port } = new URL(this.#url)
    const socket = connect({ host: hostname, port: Number(port) })
    socket.on('error', () => {})
    socket.write(bytes)
    await new Promise(resolve => setTimeout(resolve, leaveAfterMs))
    socket.resetAndDestroy()
    this.totals.cut++
  }
}
