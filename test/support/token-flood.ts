import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'

const CONNECTIONS = 32
/** Of one connection; the gateway reads no further. */
const MAX_UNANSWERED = 7
const TICK_MS = 5
const STATUS_LINE = /HTTP\/1\.1 (\d{3})/g

/** Requests with random bearer tokens, at a steady rate, independent of the responses. */
export class TokenFlood {
  sent = 0
  readonly statuses = new Map<number, number>()
  readonly #startedAtMs = performance.now()
  readonly #timer: NodeJS.Timeout
  readonly #attackers: Attacker[]

  /** @param addressOf what the trusted proxy in front says of the n-th request */
  constructor(url: string, perSecond: number, addressOf: (request: number) => string) {
    const count = (status: number) => this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1)
    this.#attackers = Array.from({ length: CONNECTIONS }, () => new Attacker(url, count))
    this.#timer = setInterval(() => {
      const due = Math.floor((this.seconds * perSecond) / CONNECTIONS)
      for (const attacker of this.#attackers) {
        while (attacker.sent < due && attacker.unanswered < MAX_UNANSWERED)
          attacker.send(addressOf(this.sent++))
      }
    }, TICK_MS)
  }

  get seconds(): number {
    return (performance.now() - this.#startedAtMs) / 1000
  }

  stop(): void {
    clearInterval(this.#timer)
    for (const attacker of this.#attackers) attacker.stop()
  }
}

class Attacker {
  sent = 0
  unanswered = 0
  readonly #socket: Socket
  #received = ''

  constructor(url: string, count: (status: number) => void) {
    const { hostname, port } = new URL(url)
    this.#socket = connect(Number(port), hostname).setNoDelay(true)
    this.#socket.on('data', chunk => {
      this.#received += chunk.toString('latin1')
      let end = 0
      for (const match of this.#received.matchAll(STATUS_LINE)) {
        count(Number(match[1]))
        this.unanswered--
        end = match.index + match[0].length
      }
      this.#received = this.#received.slice(Math.max(end, this.#received.length - 16))
    })
  }

  send(address: string): void {
    this.sent++
    this.unanswered++
    const token = `old-${randomBytes(16).toString('hex')}`
    this.#socket.write(
      `GET /api/v1/auth HTTP/1.1\r\nHost: gateway\r\nX-Forwarded-For: ${address}\r\nAuthorization: Bearer ${token}\r\n\r\n`,
    )
  }

  stop(): void {
    this.#socket.on('error', () => {}).destroy()
  }
}
