import { hash } from 'node:crypto'
import type { Transaction } from 'kysely'
import type { Clock } from '../../domain/clock.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { type Caller, type Person, personActor } from '../platform/access/principal.ts'
import { appendAudit, runAudited } from '../platform/audit/chain.ts'
import { type AccessAction, type AuditDetail, auditAccess } from '../platform/audit/entries.ts'
import type { AuditedDatabase } from '../platform/audit/mac.ts'
import type { Database } from '../platform/database/database.ts'
import { findTrouble } from '../platform/database/database-unavailable.ts'
import type { RandomBytes } from '../platform/database/ids.ts'
import { takePage } from '../platform/database/query-parts.ts'
import type { SessionRow, Tables } from '../platform/database/tables.ts'

/** Activity is recorded once in this fraction of the idle limit, so that not every page writes to the database. */
const IDLE_PARTS = 20
const SESSION_ID = /^[A-Za-z0-9_-]{43}$/

interface SessionLimits {
  readonly idleSeconds: number
  readonly absoluteSeconds: number
  readonly maxPerPerson: number
}

interface Session {
  readonly person: Person
  /** Basis of the CSRF tokens in forms. */
  readonly csrfSecret: string
}

/** Signed-in sessions, in the database so that every console of it shares them. */
export type Sessions = ReturnType<typeof createSessions>

/** Where a request comes from. */
export type Origin = Pick<Caller, 'address' | 'requestId'>

interface SessionParts {
  readonly database: AuditedDatabase
  readonly newAuditId: (nowMs: number) => string
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly limits: SessionLimits
  readonly metrics: Pick<Metrics, 'auditWriteFailures'>
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

export function createSessions(parts: SessionParts) {
  return {
    /** @returns a new session id, which only the browser may hold */
    start: (person: Person, from: Origin) => startSession(parts, person, from),
    /** @returns null if the session does not exist or has ended */
    find: (id: string) => findSession(parts, id),
    end: (id: string, from: Origin) => endSession(parts, id, from),
    /** Ends every session of this person. @returns how many there were */
    endAll: (person: Pick<Person, 'subject'>, caller: Caller) => endAllSessions(parts, person, caller),
    /** Deletes sessions that have ended. */
    purge: () => purgeSessions(parts),
  }
}

/** The session and its audit entry are one transaction. */
async function startSession(parts: SessionParts, person: Person, from: Origin): Promise<string> {
  const { clock, randomBytes, limits } = parts
  const id = randomToken(randomBytes)
  const nowMs = clock.wallMs()
  const row: SessionRow = {
    digest: digestSessionId(id),
    subject: person.subject,
    person: JSON.stringify(person),
    csrf_secret: randomToken(randomBytes),
    started_at_ms: nowMs,
    seen_at_ms: nowMs,
  }
  const role = person.administrator ? 'administrator' : person.role
  await runAudited(parts, async tx => {
    await tx.insertInto('sessions').values(row).execute()
    await endOldestSessions(tx, row, limits.maxPerPerson)
    await audit(parts, tx, 'person.signed_in', { role }, personCaller(person, from))
  })
  return id
}

async function endSession(parts: SessionParts, id: string, from: Origin): Promise<void> {
  await runAudited(parts, async tx => {
    const ended = await tx
      .deleteFrom('sessions')
      .where('digest', '=', digestSessionId(id))
      .returning('person')
      .executeTakeFirst()
    if (ended === undefined) return
    const person = readPersonRow(ended)
    await audit(parts, tx, 'person.signed_out', { sessions: 1 }, personCaller(person, from))
  })
}

async function endAllSessions(
  parts: SessionParts,
  { subject }: Pick<Person, 'subject'>,
  caller: Caller,
): Promise<number> {
  return runAudited(parts, async tx => {
    const { numDeletedRows } = await tx
      .deleteFrom('sessions')
      .where('subject', '=', subject)
      .executeTakeFirst()
    const sessions = Number(numDeletedRows)
    const about = { person: personActor({ subject }), sessions, endedBy: caller.actor }
    if (sessions > 0) await audit(parts, tx, 'person.signed_out', about, caller)
    return sessions
  })
}

async function audit(
  { database, clock, newAuditId }: SessionParts,
  tx: Transaction<Tables>,
  action: AccessAction,
  about: AuditDetail,
  caller: Caller,
): Promise<void> {
  const nowMs = clock.wallMs()
  const entry = auditAccess(action, about, { id: newAuditId(nowMs), atMs: nowMs, caller })
  await appendAudit(tx, [entry], database)
}

function personCaller(person: Person, { address, requestId }: Origin): Caller {
  return { actor: personActor(person), name: person.name, address, requestId }
}

/** Keeps the one that has just begun and the newest others. Those of a clock that was ahead must not keep a person out. */
async function endOldestSessions(
  tx: Transaction<Tables>,
  { subject, digest }: Pick<SessionRow, 'subject' | 'digest'>,
  kept: number,
): Promise<void> {
  const others = tx
    .selectFrom('sessions')
    .select('digest')
    .where('subject', '=', subject)
    .where('digest', '<>', digest)
  const newest = others
    .orderBy('started_at_ms', 'desc')
    .orderBy('digest')
    .limit(kept - 1)
  await tx
    .deleteFrom('sessions')
    .where('subject', '=', subject)
    .where('digest', '<>', digest)
    .where('digest', 'not in', newest)
    .execute()
}

async function findSession(parts: SessionParts, id: string): Promise<Session | null> {
  const { database, clock, limits } = parts
  if (!SESSION_ID.test(id)) return null
  const digest = digestSessionId(id)
  const query = database.reader.selectFrom('sessions').selectAll().where('digest', '=', digest)
  const row = await query.executeTakeFirst()
  const nowMs = clock.wallMs()
  if (row === undefined || !isLive(row, limits, nowMs)) return null
  const dueMs = row.seen_at_ms + (limits.idleSeconds * 1000) / IDLE_PARTS
  if (nowMs >= dueMs) await recordActivity(parts, digest, nowMs)
  return { person: readPersonRow(row), csrfSecret: row.csrf_secret }
}

function readPersonRow(row: Pick<SessionRow, 'person'>): Person {
  // Only startSession() above writes this column.
  return JSON.parse(row.person) as Person
}

/**
 * An update, so that it cannot bring back a session that was ended meanwhile. A database that takes no writes still serves pages; the
 * next request tries again.
 */
async function recordActivity({ database }: SessionParts, digest: string, nowMs: number): Promise<void> {
  await database.writer
    .updateTable('sessions')
    .set({ seen_at_ms: nowMs })
    .where('digest', '=', digest)
    .where('seen_at_ms', '<', nowMs)
    .execute()
    .catch((error: unknown) => {
      if (findTrouble(error) === null) throw error
    })
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

export interface SignedInPerson {
  readonly subject: string
  readonly name: string
  readonly sessions: number
  readonly lastSeenMs: number
}

interface PeoplePage {
  readonly people: readonly SignedInPerson[]
  /** Where the next page starts; null on the last. */
  readonly nextAfterSubject: string | null
}

export interface PeopleParts {
  readonly database: Database
  readonly clock: Clock
  readonly limits: SessionLimits
}

/** People with sessions, by subject. A person whose sessions have all ended is left out. */
export async function listPeople(
  parts: PeopleParts,
  { limit, afterSubject }: { readonly limit: number; readonly afterSubject: string | null },
): Promise<PeoplePage> {
  let query = parts.database.reader.selectFrom('sessions').select('subject').distinct()
  if (afterSubject !== null) query = query.where('subject', '>', afterSubject)
  const found = await query
    .orderBy('subject')
    .limit(limit + 1)
    .execute()
  const { rows, next } = takePage(found, limit, ({ subject }) => subject)
  const subjects = rows.map(({ subject }) => subject)
  return { people: await findPeople(parts, subjects), nextAfterSubject: next }
}

export async function findPerson(parts: PeopleParts, subject: string): Promise<SignedInPerson | null> {
  const [person] = await findPeople(parts, [subject])
  return person ?? null
}

/** At most `console.session.maxPerPerson` rows each. */
async function findPeople(
  { database, clock, limits }: PeopleParts,
  subjects: readonly string[],
): Promise<SignedInPerson[]> {
  if (subjects.length === 0) return []
  const nowMs = clock.wallMs()
  const rows = await database.reader
    .selectFrom('sessions')
    .select(['subject', 'person', 'started_at_ms', 'seen_at_ms'])
    .where('subject', 'in', subjects)
    .orderBy('subject')
    .orderBy('seen_at_ms', 'desc')
    .execute()
  const live = rows.filter(row => isLive(row, limits, nowMs))
  return [...Map.groupBy(live, row => row.subject)].flatMap(([subject, sessions]) => {
    const [newest] = sessions
    if (newest === undefined) return []
    const { name } = readPersonRow(newest)
    return [{ subject, name, sessions: sessions.length, lastSeenMs: newest.seen_at_ms }]
  })
}

function digestSessionId(id: string): string {
  return hash('sha256', id)
}

function randomToken(randomBytes: RandomBytes): string {
  return Buffer.from(randomBytes(32)).toString('base64url')
}
