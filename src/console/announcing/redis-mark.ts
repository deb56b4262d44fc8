import type { Kysely } from 'kysely'
import type { Clock } from '../../domain/clock.ts'
import { parseJsonObject } from '../../domain/form/json.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import type { AnnouncingRedis } from '../../redis/announcing-connection.ts'
import type { Tables } from '../platform/database/tables.ts'
import type { Announcer } from './announcer.ts'
import { createMarkEntry } from './mark-entry.ts'
import { type MarkRow, OtherMark, readMark } from './mark-rows.ts'
import type { PendingChanges } from './outbox-rows.ts'

/** Longer than a console takes from the mark in the database to that in Redis: one that starts meanwhile waits for it. */
const CLAIM_MS = 5_000
/** Consoles say each minute that they announce to the marked Redis. */
const ALIVE_MS = 180_000
/** Clocks of consoles differ by less. A time further ahead is by a clock that was wrong: what it says is unknown. */
const CLOCKS_APART_MS = 60_000

/** The mark in Redis. */
interface HeldMark {
  readonly mark: string
  /** Every change until then was announced to it; null while those of all keys are being announced. */
  readonly untilMs: number | null
}

/** That the Redis of this connection is the marked one. Each is an object of its own, so that two of one mark differ. */
export interface Verified {
  /** Empty without a shared Redis, as in a database without a mark. */
  readonly mark: string
  /** Until when changes are known to be announced to it; infinity if those of all keys are announced anew. */
  readonly untilMs: number
}

/** Without a shared Redis there is nothing to recognise. */
const UNMARKED: Verified = { mark: '', untilMs: Number.POSITIVE_INFINITY }

interface MarkParts {
  readonly repository: Pick<PendingChanges, 'readMark' | 'claimMark' | 'renewMark' | 'keepMark'>
  readonly announcer: Pick<Announcer, 'mark' | 'state'>
  readonly clock: Clock
  readonly logger: ControlLogger
}

/**
 * Recognises the Redis that has every announcement: database and Redis hold the same mark. A Redis that was used before, whose records
 * may be of then, holds an earlier mark, and an empty one holds none. It gets a new one, and every change of all keys, before
 * heartbeats begin.
 */
export class RedisMark {
  readonly #parts: MarkParts
  #doubts = 0
  #attempt: Promise<Verified> | null = null
  /** The mark of the database that this process found or made last. */
  #known: string | null = null
  /** The mark that it tried to make last: the answer of the database may be lost. */
  #tried: string | null = null
  /** The mark that it gave its Redis in place of another, as far as it got. */
  #renewal: { readonly from: string; readonly to: string } | null = null
  #verified: Verified | null = null
  /** What this process has noted last in each copy in the Redis of this connection. */
  #notedMs = Number.NEGATIVE_INFINITY
  #supersededSinceMs: number | null = null
  #hasLogged = false

  constructor(parts: MarkParts) {
    this.#parts = parts
    // Until the first connection there is nothing that it may lack.
    if (parts.announcer.mark === null) this.#verified = UNMARKED
  }

  /** Null until `verify` has succeeded on this connection. */
  get verified(): Verified | null {
    return this.#verified
  }

  /** Whether another console announces to another Redis. */
  get isSuperseded(): boolean {
    return this.#supersededSinceMs !== null
  }

  /** The connection is new, or the mark was changed. */
  doubt(): void {
    this.#doubts++
    this.#verified = null
    this.#notedMs = Number.NEGATIVE_INFINITY
  }

  /** Once for all who call meanwhile. @throws OtherMark if it is not the Redis that other consoles announce to */
  async verify(): Promise<Verified> {
    if (this.#verified !== null) return this.#verified
    this.#attempt ??= this.#verify().finally(() => {
      this.#attempt = null
    })
    return this.#attempt
  }

  async #verify(): Promise<Verified> {
    const doubts = this.#doubts
    const verified = await this.#recognise()
    if (doubts !== this.#doubts) throw new Error('Redis has reconnected, or another is marked, meanwhile')
    this.#verified = verified
    this.#supersededSinceMs = null
    this.#hasLogged = false
    return verified
  }

  async #recognise(): Promise<Verified> {
    const { repository, announcer, clock } = this.#parts
    if (announcer.mark === null) return { ...UNMARKED }
    const doubts = this.#doubts
    const held = readHeld(await announcer.mark.read())
    const row = await repository.readMark()
    const isHalfRenewed = row.mark === this.#renewal?.to && held?.mark === this.#renewal.from
    if (held !== null && (held.mark === row.mark || isHalfRenewed)) {
      const { untilMs } = held
      const { mark } = row
      if (isHalfRenewed) await this.#write({ mark, untilMs }, doubts)
      this.#known = mark
      if (untilMs !== null && untilMs <= clock.wallMs() + CLOCKS_APART_MS) return { mark, untilMs }
      // What was announced of all keys may be lost with an earlier connection.
      await this.#change(mark, mark)
      return { mark, untilMs: Number.POSITIVE_INFINITY }
    }
    const mark = await this.#claim(held, row)
    await this.#write({ mark, untilMs: null }, doubts)
    this.#known = mark
    return { mark, untilMs: Number.POSITIVE_INFINITY }
  }

  /** Notes in Redis, and in the database that a console announces there. @param untilMs every change until then is announced */
  async keep(verified: Verified, untilMs: number): Promise<void> {
    const { repository, announcer } = this.#parts
    const { mark } = verified
    // It may have been doubted since the caller asked the database: another one would be said to have everything.
    if (announcer.mark === null || this.#verified !== verified) return
    const isKept = await repository.keepMark(mark)
    const held = await announcer.mark.read()
    if (this.#verified !== verified) return
    // One that was evicted, or flushed, on the same connection is written again. An earlier one is of a snapshot, as behind a proxy.
    const isOther = held
      .map(readCopy)
      .some(copy => copy !== null && (copy.mark !== mark || this.#isEarlier(copy)))
    if (!isKept || isOther) return this.doubt()
    // Not on a connection that leads elsewhere since.
    if (announcer.state() !== 'ready') return
    const isWhole = await announcer.mark.write(encodeHeld({ mark, untilMs }))
    // A node of a cluster that refuses writes keeps an earlier copy, which is not of a snapshot.
    if (isWhole && this.#verified === verified) this.#notedMs = untilMs
  }

  /**
   * Another console has fallen silent. It has stopped, or a proxy leads it to another server that holds the same mark: from now on
   * only this one counts, and the other console finds it by the mark of the database.
   * @throws OtherMark if another console was faster
   */
  async renew(verified: Verified): Promise<Verified> {
    const { repository, announcer } = this.#parts
    if (announcer.mark === null) return verified
    const doubts = this.#doubts
    const from = verified.mark
    if (this.#renewal?.from !== from) this.#renewal = { from, to: crypto.randomUUID() }
    const mark = this.#renewal.to
    // The answer to an earlier attempt may be lost.
    if (!(await repository.renewMark(from, mark)) && (await repository.readMark()).mark !== mark) {
      this.doubt()
      throw new OtherMark()
    }
    const untilMs = Number.isFinite(this.#notedMs) ? this.#notedMs : verified.untilMs
    await this.#write({ mark, untilMs: finiteOrNull(untilMs) }, doubts)
    this.#known = mark
    if (doubts !== this.#doubts) throw new Error('Redis has reconnected meanwhile')
    this.#verified = { mark, untilMs: verified.untilMs }
    return this.#verified
  }

  /** Not on a connection that is new since then. */
  async #write(held: HeldMark, doubts: number): Promise<void> {
    if (doubts === this.#doubts) await this.#parts.announcer.mark?.write(encodeHeld(held))
  }

  #isEarlier({ untilMs }: HeldMark): boolean {
    return (untilMs ?? Number.NEGATIVE_INFINITY) < this.#notedMs - CLOCKS_APART_MS
  }

  async #claim(held: HeldMark | null, row: MarkRow): Promise<string> {
    const { clock, logger } = this.#parts
    if (this.#isOfOther(row, clock.wallMs())) throw this.#superseded()
    const mark = crypto.randomUUID()
    this.#tried = mark
    const hasKeys = await this.#change(row.mark, mark)
    if (hasKeys) {
      const found = held === null ? 'no mark' : 'the mark of an earlier time'
      logger.warn({ found }, 'redis lacks announcements, announcing the changes of all keys')
    }
    return mark
  }

  /** Whether another console may be about to mark this Redis, or announces to another one. The settings of the last to start count. */
  #isOfOther({ mark, markedAtMs, keptAtMs }: MarkRow, nowMs: number): boolean {
    if (mark === '' || mark === this.#known || mark === this.#tried) return false
    if (this.#known === null && keptAtMs > 0) return false
    const waitMs = this.#known === null ? CLAIM_MS : ALIVE_MS
    return Math.abs(nowMs - Math.max(markedAtMs, keptAtMs)) < waitMs
  }

  /** @returns whether there are keys */
  async #change(from: string, to: string): Promise<boolean> {
    const claimed = await this.#parts.repository.claimMark(from, to)
    if (claimed === null) throw new Error('Another console has marked its Redis meanwhile')
    return claimed.hasKeys
  }

  #superseded(): OtherMark {
    const { clock, logger } = this.#parts
    const nowMs = clock.monotonicMs()
    this.#supersededSinceMs ??= nowMs
    const error = new OtherMark()
    // Before that the mark of another console may be on its way to the same Redis.
    if (!this.#hasLogged && nowMs - this.#supersededSinceMs > CLAIM_MS) {
      this.#hasLogged = true
      const advice = 'give all consoles the same redis.url (or regions)'
      logger.error({ advice }, 'another console announces to another redis, this one announces nothing')
    }
    return error
  }
}

/** Whether a console that starts now recognises this Redis; null if the database has no mark of it. */
export async function isMarkedRedis(
  connection: AnnouncingRedis,
  database: Kysely<Tables>,
  region: string,
): Promise<boolean | null> {
  const { mark } = await readMark(database, region)
  const held = readHeld(await createMarkEntry(connection, region).read())
  return mark === '' ? null : held?.mark === mark
}

function encodeHeld(held: HeldMark): string {
  return JSON.stringify(held)
}

/** @returns what all copies say; null if one says something else, or nothing */
function readHeld(copies: readonly string[]): HeldMark | null {
  const all = copies.map(readCopy)
  const [first = null] = all
  if (first === null || all.some(copy => copy?.mark !== first.mark)) return null
  const times = all.flatMap(copy => copy?.untilMs ?? [])
  return { mark: first.mark, untilMs: times.length < all.length ? null : Math.min(...times) }
}

function readCopy(text: string): HeldMark | null {
  const { mark, untilMs } = parseJsonObject(text) ?? {}
  if (typeof mark !== 'string' || mark === '') return null
  return { mark, untilMs: finiteOrNull(untilMs) }
}

function finiteOrNull(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}
