import type { Clock, Timers } from '../../../domain/clock.ts'
import type { Database } from './database.ts'

/** Probes write: however often they are asked for, there is one a second. */
const FRESH_MS = 1_000
/** A probe of Kubernetes waits one second in all. */
const WAIT_MS = 300
/** A write takes milliseconds. */
const LATE_MS = 2_000

/** `low_space`: it reads and still writes, but its disk is full, or soon will be. */
export type DatabaseState = 'ok' | 'low_space' | 'failed'

interface DatabaseHealthParts {
  /** Reads and writes. */
  readonly probe: () => Promise<Exclude<DatabaseState, 'failed'>>
  readonly clock: Clock
  readonly timers: Timers
}

/** Whether the database reads and writes: a full disk or a standby still reads. */
export class DatabaseHealth {
  readonly #parts: DatabaseHealthParts
  #state: DatabaseState = 'ok'
  #knownAtMs = Number.NEGATIVE_INFINITY
  #running: { readonly sinceMs: number; readonly ended: Promise<void> } | null = null

  constructor(parts: DatabaseHealthParts) {
    this.#parts = parts
  }

  /** After an error the next call probes, however soon. */
  doubt(): void {
    this.#knownAtMs = Number.NEGATIVE_INFINITY
  }

  /** Answers in time: while the database does not, with what was known, and then with `failed`. */
  async state(): Promise<DatabaseState> {
    const { clock, timers } = this.#parts
    const nowMs = clock.monotonicMs()
    if (this.#running === null && nowMs - this.#knownAtMs >= FRESH_MS) {
      this.#running = { sinceMs: nowMs, ended: this.#probe() }
    }
    if (this.#running === null) return this.#state
    const { promise: waited, resolve } = Promise.withResolvers<void>()
    const cancel = timers.after(WAIT_MS, resolve)
    await Promise.race([this.#running.ended, waited]).finally(cancel)
    const isLate = this.#running !== null && clock.monotonicMs() - this.#running.sinceMs >= LATE_MS
    return isLate ? 'failed' : this.#state
  }

  /** Never rejects. */
  async #probe(): Promise<void> {
    this.#state = await this.#parts.probe().catch(() => 'failed' as const)
    this.#knownAtMs = this.#parts.clock.monotonicMs()
    this.#running = null
  }
}

/** As large as the rows of a change: a disk that is nearly full has room for less. */
const PROBE = ' '.repeat(16 * 1024)

/** Reads a row, and inserts and deletes one of this console, which the database must write to its log when it commits. */
export async function probeDatabase(
  database: Database,
  { consoleId, clock }: { readonly consoleId: string; readonly clock: Clock },
): Promise<void> {
  await database.reader.selectFrom('outbox').select('version').limit(1).execute()
  const id = `probe of ${consoleId}`
  await database.changes.announce(async tx => {
    await tx
      .insertInto('idempotent_responses')
      .values({ id, request: '', outcome: PROBE, at_ms: clock.wallMs() })
      .execute()
    await tx.deleteFrom('idempotent_responses').where('id', '=', id).execute()
  })
}
