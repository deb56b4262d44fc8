import type { Clock } from '../../domain/clock.ts'
import type { Database } from '../platform/database/database.ts'
import { isLive, personOfRow, type SessionLimits } from './sessions.ts'

export interface SignedInPerson {
  readonly subject: string
  readonly name: string
  readonly sessions: number
  readonly lastSeenMs: number
}

export interface PeoplePage {
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
  { database, clock, limits }: PeopleParts,
  { limit, afterSubject }: { readonly limit: number; readonly afterSubject: string | null },
): Promise<PeoplePage> {
  let query = database.reader.selectFrom('sessions').select('subject').distinct()
  if (afterSubject !== null) query = query.where('subject', '>', afterSubject)
  const found = await query
    .orderBy('subject')
    .limit(limit + 1)
    .execute()
  const subjects = found.slice(0, limit).map(({ subject }) => subject)
  const nowMs = clock.wallMs()
  const people = await peopleOf(database, subjects, row => isLive(row, limits, nowMs))
  return { people, nextAfterSubject: found.length > limit ? (subjects.at(-1) ?? null) : null }
}

export async function findPerson(
  { database, clock, limits }: PeopleParts,
  subject: string,
): Promise<SignedInPerson | null> {
  const nowMs = clock.wallMs()
  const [person] = await peopleOf(database, [subject], row => isLive(row, limits, nowMs))
  return person ?? null
}

type Times = Parameters<typeof isLive>[0]

/** At most `console.session.maxPerPerson` rows each. */
async function peopleOf(
  { reader }: Database,
  subjects: readonly string[],
  isCounted: (row: Times) => boolean,
): Promise<SignedInPerson[]> {
  if (subjects.length === 0) return []
  const rows = await reader
    .selectFrom('sessions')
    .select(['subject', 'person', 'started_at_ms', 'seen_at_ms'])
    .where('subject', 'in', subjects)
    .orderBy('subject')
    .orderBy('seen_at_ms', 'desc')
    .execute()
  return [...Map.groupBy(rows.filter(isCounted), row => row.subject)].flatMap(([subject, sessions]) => {
    const [newest] = sessions
    if (newest === undefined) return []
    const { name } = personOfRow(newest)
    return [{ subject, name, sessions: sessions.length, lastSeenMs: newest.seen_at_ms }]
  })
}
