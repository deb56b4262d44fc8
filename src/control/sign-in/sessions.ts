import { hash } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import type { Database } from '../registry/database/database.ts'
import type { SessionRow } from '../registry/database/tables.ts'
import type { RandomBytes } from '../registry/operations/ids.ts'
import type { Person } from './person.ts'

/** A last request is noted to this part of the idle limit, so that not every page writes to the database. */
const IDLE_PARTS = 20
const SESSION_ID = /^[A-Za-z0-9_-]{43}$/

export interface SessionLimits {
  readonly idleSeconds: number
  readonly absoluteSeconds: number
  readonly maxPerPerson: number
}

export interface Session {
  readonly person: Person
  /** What the tokens in forms are made of. */
  readonly csrfSecret: string
}

/** Who is signed in, in the database, so that every console of it knows. */
export interface Sessions {
  /** @returns the session's id, which only the browser is to have; always a new one */
  start(person: Person): Promise<string>
  /** @returns null where there is no such session, or none any more */
  find(id: string): Promise<Session | null>
  end(id: string): Promise<void>
  /** Everywhere this person is signed in. */
  endAll(person: Pick<Person, 'subject'>): Promise<void>
  /** Deletes those that are over. */
  purge(): Promise<void>
}

export interface SessionParts {
  readonly database: Database
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly limits: SessionLimits
}

type Times = Pick<SessionRow, 'started_at_ms' | 'seen_at_ms'>

/** Whether a session still holds: neither idle nor, however busy, older than it may be. */
export function isLive(
  times: Times,
  { idleSeconds, absoluteSeconds }: SessionLimits,
  nowMs: number,
): boolean {
  return nowMs < times.seen_at_ms + idleSeconds * 1000 && nowMs < times.started_at_ms + absoluteSeconds * 1000
}

export function createSessions({ database, clock, randomBytes, limits }: SessionParts): Sessions {
  const { reader, writer } = database

  async function start(person: Person): Promise<string> {
    const id = base64url(randomBytes(32))
    const nowMs = clock.wallMs()
    const row: SessionRow = {
      digest: digestOf(id),
      subject: person.subject,
      person: JSON.stringify(person),
      csrf_secret: base64url(randomBytes(32)),
      started_at_ms: nowMs,
      seen_at_ms: nowMs,
    }
    await writer.insertInto('sessions').values(row).execute()
    await endOldest(person.subject)
    return id
  }

  async function endOldest(subject: string): Promise<void> {
    const newest = writer
      .selectFrom('sessions')
      .select('digest')
      .where('subject', '=', subject)
      .orderBy('started_at_ms', 'desc')
      .orderBy('digest')
      .limit(limits.maxPerPerson)
    await writer
      .deleteFrom('sessions')
      .where('subject', '=', subject)
      .where('digest', 'not in', newest)
      .execute()
  }

  async function find(id: string): Promise<Session | null> {
    if (!SESSION_ID.test(id)) return null
    const digest = digestOf(id)
    const row = await reader
      .selectFrom('sessions')
      .selectAll()
      .where('digest', '=', digest)
      .executeTakeFirst()
    const nowMs = clock.wallMs()
    if (row === undefined || !isLive(row, limits, nowMs)) return null
    const dueMs = row.seen_at_ms + (limits.idleSeconds * 1000) / IDLE_PARTS
    if (nowMs >= dueMs) await note(digest, nowMs)
    // Only start() above writes this column.
    return { person: JSON.parse(row.person) as Person, csrfSecret: row.csrf_secret }
  }

  /** A session that was ended meanwhile stays so: this makes none. */
  async function note(digest: string, nowMs: number): Promise<void> {
    await writer
      .updateTable('sessions')
      .set({ seen_at_ms: nowMs })
      .where('digest', '=', digest)
      .where('seen_at_ms', '<', nowMs)
      .execute()
  }

  return {
    start,
    find,
    async end(id) {
      await writer.deleteFrom('sessions').where('digest', '=', digestOf(id)).execute()
    },
    async endAll({ subject }) {
      await writer.deleteFrom('sessions').where('subject', '=', subject).execute()
    },
    async purge() {
      const nowMs = clock.wallMs()
      await writer
        .deleteFrom('sessions')
        .where(row =>
          row.or([
            row('seen_at_ms', '<=', nowMs - limits.idleSeconds * 1000),
            row('started_at_ms', '<=', nowMs - limits.absoluteSeconds * 1000),
          ]),
        )
        .execute()
    },
  }
}

function digestOf(id: string): string {
  return hash('sha256', id)
}

function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url')
}
