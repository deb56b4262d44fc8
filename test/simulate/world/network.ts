import type { Random } from './random.ts'
import type { Scheduler } from './scheduler.ts'

/** TCP sends again after about this long once the way is free. */
const RETRANSMIT_MS = 200
const MIN_DELAY_MS = 0.2
const MAX_DELAY_MS = 3
/** A packet is lost this often; TCP repeats it after at least 200 ms, and everything behind it waits. */
const LOSS = 0.002

/** Delays, partitions and slow ways between named places. */
export class Network {
  /** No packet is lost and no statement is slow. */
  isCalm = false
  readonly #scheduler: Scheduler
  readonly #random: Random
  readonly #blockedUntilMs = new Map<string, number>()
  readonly #slow = new Map<string, { readonly untilMs: number; readonly extraMs: number }>()

  constructor(scheduler: Scheduler, random: Random) {
    this.#scheduler = scheduler
    this.#random = random
  }

  block(a: string, b: string, durationMs: number): void {
    this.#blockedUntilMs.set(wayOf(a, b), this.#scheduler.nowMs + durationMs)
  }

  slow(a: string, b: string, extraMs: number, durationMs: number): void {
    this.#slow.set(wayOf(a, b), { extraMs, untilMs: this.#scheduler.nowMs + durationMs })
  }

  /** When the way is free again; now if it is. */
  freeAtMs(a: string, b: string): number {
    return Math.max(this.#scheduler.nowMs, this.#blockedUntilMs.get(wayOf(a, b)) ?? 0)
  }

  isBlocked(a: string, b: string): boolean {
    return this.freeAtMs(a, b) > this.#scheduler.nowMs
  }

  delayMs(a: string, b: string): number {
    const slow = this.#slow.get(wayOf(a, b))
    const extraMs = slow !== undefined && slow.untilMs > this.#scheduler.nowMs ? slow.extraMs : 0
    const lostMs = !this.isCalm && this.#random.chance(LOSS) ? RETRANSMIT_MS * this.#random.between(1, 2) : 0
    return this.#random.between(MIN_DELAY_MS, MAX_DELAY_MS) + lostMs + extraMs * this.#random.next()
  }

  /** How long TCP takes to notice that a way is free again. */
  retransmitMs(): number {
    return RETRANSMIT_MS * this.#random.next()
  }
}

function wayOf(a: string, b: string): string {
  return a < b ? `${a} ${b}` : `${b} ${a}`
}

/** One direction of a connection: in order, and late while the way is blocked. */
export class Pipe<Item> {
  readonly #scheduler: Scheduler
  readonly #network: Network
  readonly #from: string
  readonly #to: string
  readonly #deliver: (item: Item) => void
  /** Schedules at the receiver, which may be frozen. */
  readonly #at: (atMs: number, run: () => void) => unknown
  readonly #waiting: { readonly dueMs: number; readonly item: Item }[] = []
  #lastDueMs = 0
  #isPumping = false
  #isClosed = false

  constructor(parts: {
    readonly scheduler: Scheduler
    readonly network: Network
    readonly from: string
    readonly to: string
    readonly at: (atMs: number, run: () => void) => unknown
    readonly deliver: (item: Item) => void
  }) {
    this.#scheduler = parts.scheduler
    this.#network = parts.network
    this.#from = parts.from
    this.#to = parts.to
    this.#at = parts.at
    this.#deliver = parts.deliver
  }

  send(item: Item): void {
    if (this.#isClosed) return
    const delayMs = this.#network.delayMs(this.#from, this.#to)
    this.#lastDueMs = Math.max(this.#lastDueMs, this.#scheduler.nowMs + delayMs)
    this.#waiting.push({ dueMs: this.#lastDueMs, item })
    if (!this.#isPumping) this.#pumpAt(this.#lastDueMs)
  }

  close(): void {
    this.#isClosed = true
    this.#waiting.length = 0
  }

  #pumpAt(atMs: number): void {
    this.#isPumping = true
    this.#at(atMs, () => this.#pump())
  }

  /** Delivers what is due in one go, as bytes that a socket reads at once. */
  #pump(): void {
    this.#isPumping = false
    const nowMs = this.#scheduler.nowMs
    if (this.#isClosed) return
    const freeAtMs = this.#network.freeAtMs(this.#from, this.#to)
    if (freeAtMs > nowMs) {
      this.#pumpAt(freeAtMs + this.#network.retransmitMs())
      return
    }
    let next = this.#waiting[0]
    while (next !== undefined && next.dueMs <= nowMs) {
      this.#waiting.shift()
      this.#deliver(next.item)
      next = this.#waiting[0]
    }
    if (next !== undefined && !this.#isPumping) this.#pumpAt(next.dueMs)
  }
}
