import type { GatewayStatus } from '../../../src/console/announcing/gateway-rows.ts'
import type { PendingChange } from '../../../src/console/announcing/outbox-rows.ts'
import type { AuditedDatabase as SqliteDatabase } from '../../../src/console/platform/audit/mac.ts'
import type { StoredKey } from '../../../src/domain/key/key-record.ts'
import type { Network, Way } from './network.ts'
import type { Process } from './process.ts'
import type { Random } from './random.ts'
import type { Scheduler } from './scheduler.ts'

export const DATABASE = 'database'
/** A connection without an answer is given up after this long. */
const GIVE_UP_MS = 2_000
/** A statement waits for a lock, or for the disk, this often, and at most this long. */
const SLOW = 0.01
const SLOWEST_MS = 800

export interface OutboxRow extends PendingChange {
  readonly claimedBy: string
  readonly claimedUntilMs: number
}

/** `isComplete`: the changes of all earlier keys were in it. */
export interface RegionOutbox {
  isComplete: boolean
  /** The id of the last key until then. */
  requeuedUntil: string
  readonly rows: Map<string, OutboxRow>
  mark: string
  markedAtMs: number
  markKeptAtMs: number
}

export interface StoredGateway extends Omit<GatewayStatus, 'confirmed'> {
  readonly confirmed: Map<string, number>
}

/** One PostgreSQL for all consoles: what it has executed is kept, whether or not its answer arrives. */
export class Database {
  readonly keys = new Map<string, { readonly key: StoredKey; readonly changedAtMs: number }>()
  /** Every version of every key, with the time of its commit. */
  readonly #history: { readonly key: StoredKey; readonly atMs: number }[] = []
  readonly digestById = new Map<string, string>()
  /** The regions that get every change, with their outboxes. */
  readonly regions = new Map<string, RegionOutbox>()
  readonly gateways = new Map<string, StoredGateway>()
  readonly #parts: { readonly scheduler: Scheduler; readonly network: Network; readonly random: Random }
  #stalledUntilMs = 0
  #writesStalledUntilMs = 0
  #losesAnswersUntilMs = 0
  #lag = { fromMs: 0, untilMs: Number.NEGATIVE_INFINITY }

  /** The program's SQLite, in place of these maps, which then only mirror it. */
  readonly sqlite: SqliteDatabase | null

  constructor(
    parts: { scheduler: Scheduler; network: Network; random: Random },
    sqlite: SqliteDatabase | null,
  ) {
    this.sqlite = sqlite
    this.#parts = parts
  }

  stall(durationMs: number): void {
    this.#stalledUntilMs = this.#parts.scheduler.nowMs + durationMs
  }

  /** As a disk that does not sync: reads are answered. */
  stallWrites(durationMs: number): void {
    this.#writesStalledUntilMs = this.#parts.scheduler.nowMs + durationMs
  }

  /** For a while it commits, and then half of the answers are lost. */
  loseAnswers(durationMs: number): void {
    this.#losesAnswersUntilMs = this.#parts.scheduler.nowMs + durationMs
  }

  /** A replica that only the key service reads shows what the primary had at the beginning. */
  lag(durationMs: number): void {
    const { nowMs } = this.#parts.scheduler
    this.#lag = { fromMs: nowMs, untilMs: nowMs + durationMs }
  }

  get isLagging(): boolean {
    return this.#lag.untilMs > this.#parts.scheduler.nowMs
  }

  /** @param changedAtMs by the clock of the console */
  store(key: StoredKey, changedAtMs: number): void {
    this.keys.set(key.digest, { key, changedAtMs })
    this.digestById.set(key.record.id, key.digest)
    this.#history.push({ key, atMs: this.#parts.scheduler.nowMs })
  }

  find(digest: string): StoredKey | null {
    return this.keys.get(digest)?.key ?? null
  }

  /** As the key service reads it. */
  findAtReplica(digest: string): StoredKey | null {
    if (!this.isLagging) return this.find(digest)
    const { fromMs } = this.#lag
    return this.#history.findLast(({ key, atMs }) => key.digest === digest && atMs <= fromMs)?.key ?? null
  }

  /** Runs a statement or transaction of a console at one moment of virtual time. */
  call<Result>(process: Process, execute: () => Result | Promise<Result>, isWrite = false): Promise<Result> {
    const { scheduler, network, random } = this.#parts
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    const fail = (): void => reject(new Error('the connection to the database was lost'))
    const giveUp = (): void => void process.timers.after(GIVE_UP_MS * random.between(0.5, 1), fail)
    const way = network.way(process.name, DATABASE)
    if (way.isBlocked) {
      giveUp()
      return promise
    }
    const arrivesAtMs = Math.max(
      scheduler.nowMs + this.#delayMs(way),
      this.#stalledUntilMs + random.next(),
      isWrite ? this.#writesStalledUntilMs + random.next() : 0,
    )
    scheduler.atServer(arrivesAtMs, () => {
      const settler = settlerOf(execute, resolve, reject)
      if (settler instanceof Promise) scheduler.hold(settler.then(answer))
      else answer(settler)
    })
    const answer = (settle: () => void): void => {
      const isLost = way.isBlocked || (this.#losesAnswersUntilMs > scheduler.nowMs && random.chance(0.5))
      if (!isLost) process.at(scheduler.nowMs + this.#delayMs(way), settle)
      else if (random.chance(0.5)) process.at(scheduler.nowMs + random.between(1, 50), fail)
      else giveUp()
    }
    return promise
  }

  #delayMs(way: Way): number {
    const { network, random } = this.#parts
    const slowMs = !network.isCalm && random.chance(SLOW) ? random.between(0, SLOWEST_MS) : 0
    return way.delayMs() + slowMs
  }
}

/** Executes now. @returns what settles the promise once the answer arrives: a constraint rejects it */
function settlerOf<Result>(
  execute: () => Result | Promise<Result>,
  resolve: (result: Result) => void,
  reject: (error: unknown) => void,
): (() => void) | Promise<() => void> {
  const failed = (error: unknown) => () => reject(error)
  const done = (result: Result) => () => resolve(result)
  try {
    const result = execute()
    return result instanceof Promise ? result.then(done, failed) : done(result)
  } catch (error) {
    return failed(error)
  }
}
