import type { Clock } from '../../domain/clock.ts'
import type { KeyRecord } from '../../domain/key-record.ts'
import { createChangeWriter } from '../registry/database/change-writer.ts'
import type { Database } from '../registry/database/database.ts'
import type { PageQuestion } from '../registry/database/key-repository.ts'
import {
  type Attempted,
  claimDue,
  type Delivery,
  type DueNotice,
  insertNotices,
  keysToWarnOf,
  listDeliveries,
  noteAttempt,
  purgeNotices,
} from './delivery-rows.ts'
import type { Notice } from './webhook-event.ts'

/** What is to be told to the webhook, and what became of it. Those about a change are noted with it, in one transaction. */
export interface Notices {
  note(notices: readonly Notice[]): Promise<void>
  /** Oldest first; other consoles leave them alone for so long. */
  claim(limit: number, forMs: number): Promise<DueNotice[]>
  noteAttempt(notice: DueNotice, attempted: Attempted): Promise<void>
  /** Newest first. */
  list(question: PageQuestion): Promise<{ deliveries: readonly Delivery[]; nextAfterId: string | null }>
  /** Keys that expire in a span of time, and of which that was not told. */
  keysToWarnOf(question: { days: number; afterMs: number; untilMs: number }): Promise<KeyRecord[]>
  /** Deletes what was delivered or given up long ago. */
  purge(): Promise<void>
}

export function createNotices(database: Database, clock: Clock): Notices {
  const { reader, dialect } = database
  const writer = createChangeWriter(database)
  const now = () => clock.wallMs()
  return {
    note: notices => writer.run(tx => insertNotices(tx, notices)),
    claim: (limit, forMs) =>
      writer.run(tx => claimDue(tx, { nowMs: now(), claimedUntilMs: now() + forMs, limit, dialect })),
    noteAttempt: (notice, attempted) => writer.run(tx => noteAttempt(tx, notice, attempted, now())),
    list: question => listDeliveries(reader, question),
    keysToWarnOf: question => keysToWarnOf(reader, question),
    async purge() {
      while (await writer.run(tx => purgeNotices(tx, now()))) {}
    },
  }
}
