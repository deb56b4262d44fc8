import { hash } from 'node:crypto'
import type { Clock } from '../../domain/clock.ts'
import type { Database } from '../registry/database/database.ts'
import type { SessionRow } from '../registry/database/tables.ts'
import type { RandomBytes } from '../registry/operations/ids.ts'
import type { Person } from './person.ts'

/** Activity is recorded once in this fraction of the idle limit, so that not every page writes to the database. */
const IDLE_PARTS = 20
const SESSION_ID = /^[A-Za-z0-9_-]{43}$/

export interface SessionLimits {
  readonly idleSeconds: number
  readonly absoluteSeconds: number
  readonly maxPerPerson: number
}

export interface Session {
  readonly person: Person
  /** Basis of the CSRF tokens in forms. */
  readonly csrfSecret: string
}

/** Signed-in sessions, in the database so that every console of it shares them. */
export interface Sessions {
  /** @returns a new session id, which only the browser may hold */
  start(person: Person): Promise<string>
  /** @returns null if the session does not exist or has ended */
  find(id: string): Promise<Session | null>
  end(id: string): Promise<void>
  /** Ends every session of this person. */
  endAll(person: Pick<Person, 'subject'>): Promise<void>
  /** Deletes sessions that have ended. */
  purge(): Promise<void>
}

export interface SessionParts {
  readonly database: Database
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly limits: SessionLimits
}

type Times = Pick<SessionRow, 'started_at_ms' | 'seen_at_ms'>

/** Whether a session is within its idle and its absolute limit. */
export function isLive(
  times: Times,
  { idleSeconds, absoluteSeconds }: SessionLimits,
  nowMs: number,
): boolean {
  return nowMs < times.seen_at_ms + idleSeconds * 1000 && nowMs < times.started_at_ms + absoluteSeconds * 1000
}

export function createSessions(parts: SessionParts): Sessions {
  const { writer } = parts.database
  return {
    start: person => startSession(parts, person),
    find: id => findSession(parts, id),
    async end(id) {
      await writer.deleteFrom('sessions').where('digest', '=', digestOf(id)).execute()
    },
    async endAll({ subject }) {
      await writer.deleteFrom('sessions').where('subject', '=', subject).execute()
    },
    purge: () => purgeSessions(parts),
  }
}

async function startSession(parts: SessionParts, person: Person): Promise<string> {
  const { database, clock, randomBytes } = parts
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
  await database.writer.insertInto('sessions').values(row).execute()
  await endOldestSessions(parts, person.subject)
  return id
}

/** Keeps the newest `maxPerPerson`. */
async function endOldestSessions({ database, limits }: SessionParts, subject: string): Promise<void> {
  const newest = database.writer
    .selectFrom('sessions')
    .select('digest')
    .where('subject', '=', subject)
    .orderBy('started_at_ms', 'desc')
    .orderBy('digest')
    .limit(limits.maxPerPerson)
  await database.writer
    .deleteFrom('sessions')
    .where('subject', '=', subject)
    .where('digest', 'not in', newest)
    .execute()
}

async function findSession(parts: SessionParts, id: string): Promise<Session | null> {
  const { database, clock, limits } = parts
  if (!SESSION_ID.test(id)) return null
  const digest = digestOf(id)
  const query = database.reader.selectFrom('sessions').selectAll().where('digest', '=', digest)
  const row = await query.executeTakeFirst()
  const nowMs = clock.wallMs()
  if (row === undefined || !isLive(row, limits, nowMs)) return null
  const dueMs = row.seen_at_ms + (limits.idleSeconds * 1000) / IDLE_PARTS
  if (nowMs >= dueMs) await recordActivity(parts, digest, nowMs)
  // Only startSession() above writes this column.
  return { person: JSON.parse(row.person) as Person, csrfSecret: row.csrf_secret }
}

/** An update, so that it cannot bring back a session that was ended meanwhile. */
async function recordActivity({ database }: SessionParts, digest: string, nowMs: number): Promise<void> {
  await database.writer
    .updateTable('sessions')
    .set({ seen_at_ms: nowMs })
    .where('digest', '=', digest)
    .where('seen_at_ms', '<', nowMs)
    .execute()
}

async function purgeSessions({ database, clock, limits }: SessionParts): Promise<void> {
  const nowMs = clock.wallMs()
  await database.writer
    .deleteFrom('sessions')
    .where(row =>
      row.or([
        row('seen_at_ms', '<=', nowMs - limits.idleSeconds * 1000),
        row('started_at_ms', '<=', nowMs - limits.absoluteSeconds * 1000),
      ]),
    )
    .execute()
}

function digestOf(id: string): string {
  return hash('sha256', id)
}

function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url')
}
