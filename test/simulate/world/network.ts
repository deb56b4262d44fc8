import type { Random } from './random.ts'
import type { Scheduler } from './scheduler.ts'

/** TCP sends again after about this long once the way is free. */
const RETRANSMIT_MS = 200
const MIN_DELAY_MS = 0.2
const MAX_DELAY_MS = 3
/** A packet is lost this often; TCP repeats it after at least 200 ms, and everything behind it waits. */
const LOSS = 0.002

/** The way between two named places, in both directions. */
export class Way {
  /** One way, without what a near network takes. */
  readonly distanceMs: number
  readonly #network: Network
  #blockedUntilMs = 0
  #slowUntilMs = 0
  #extraMs: readonly [number, number] = [0, 0]

  constructor(network: Network, distanceMs: number) {
    this.#network = network
    this.distanceMs = distanceMs
  }

  get isBlocked(): boolean {
    return this.#blockedUntilMs > this.#network.scheduler.nowMs
  }

  /** When the way is free again; now if it is. */
  get freeAtMs(): number {
    return Math.max(this.#network.scheduler.nowMs, this.#blockedUntilMs)
  }

  block(durationMs: number): void {
    this.#blockedUntilMs = this.#network.scheduler.nowMs + durationMs
  }

  slow(extraMs: readonly [number, number], durationMs: number): void {
    this.#extraMs = extraMs
    this.#slowUntilMs = this.#network.scheduler.nowMs + durationMs
  }

  delayMs(): number {
    const { isCalm, random, scheduler } = this.#network
    const extraMs = this.#slowUntilMs > scheduler.nowMs ? random.between(...this.#extraMs) : 0
    const lostMs = !isCalm && random.chance(LOSS) ? RETRANSMIT_MS * random.between(1, 2) : 0
    return this.distanceMs + random.between(MIN_DELAY_MS, MAX_DELAY_MS) + lostMs + extraMs
  }

  /** How long TCP takes to notice that a way is free again. */
  retransmitMs(): number {
    return RETRANSMIT_MS * this.#network.random.next()
  }
}

interface Place {
  readonly region: number | null
  readonly distanceMs: number
}

/** The consoles and their database. */
const HOME: Place = { region: null, distanceMs: 0 }

/** Delays, partitions and slow ways between named places. */
export class Network {
  /** No packet is lost and no statement is slow. */
  isCalm = false
  readonly scheduler: Scheduler
  readonly random: Random
  readonly #places = new Map<string, Place>()
  /** By both names, in both orders. */
  readonly #ways = new Map<string, Map<string, Way>>()

  constructor(scheduler: Scheduler, random: Random) {
    this.scheduler = scheduler
    this.random = random
  }

  /** @param distanceMs one way from the consoles */
  place(name: string, region: number, distanceMs: number): void {
    this.#places.set(name, { region, distanceMs })
  }

  way(a: string, b: string): Way {
    const known = this.#ways.get(a)?.get(b)
    if (known !== undefined) return known
    const [from, to] = [this.#places.get(a) ?? HOME, this.#places.get(b) ?? HOME]
    const distanceMs = from.region === to.region ? 0 : Math.max(from.distanceMs, to.distanceMs)
    const way = new Way(this, distanceMs)
    this.#waysOf(a).set(b, way)
    this.#waysOf(b).set(a, way)
    return way
  }

  #waysOf(name: string): Map<string, Way> {
    const ways = this.#ways.get(name) ?? new Map<string, Way>()
    this.#ways.set(name, ways)
    return ways
  }
}

/** One direction of a connection: in order, and late while the way is blocked. */
export class Pipe<Item> {
  readonly #scheduler: Scheduler
  readonly #way: Way
  readonly #deliver: (item: Item) => void
  /** Schedules at the receiver, which may be frozen. */
  readonly #at: (atMs: number, run: () => void) => unknown
  readonly #waiting: { readonly dueMs: number; readonly item: Item }[] = []
  #lastDueMs = 0
  #isPumping = false
  #isClosed = false

  constructor(parts: {
    readonly scheduler: Scheduler
    readonly way: Way
    readonly at: (atMs: number, run: () => void) => unknown
    readonly deliver: (item: Item) => void
  }) {
    this.#scheduler = parts.scheduler
    this.#way = parts.way
    this.#at = parts.at
    this.#deliver = parts.deliver
  }

  send(item: Item): void {
    if (this.#isClosed) return
    this.#lastDueMs = Math.max(this.#lastDueMs, this.#scheduler.nowMs + this.#way.delayMs())
    this.#waiting.push({ dueMs: this.#lastDueMs, item })
    if (!this.#isPumping) this.#pumpAt(this.#lastDueMs)
  }

  close(): void {
    this.#isClosed = true
    this.#waiting.length = 0
  }

  #pumpAt(atMs: number): void {
    this.#isPumping = true
    this.#at(atMs, this.#pump)
  }

  /** Delivers what is due in one go, as bytes that a socket reads at once. */
  readonly #pump = (): void => {
    this.#isPumping = false
    const nowMs = this.#scheduler.nowMs
    if (this.#isClosed) return
    if (this.#way.isBlocked) {
      this.#pumpAt(this.#way.freeAtMs + this.#way.retransmitMs())
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
