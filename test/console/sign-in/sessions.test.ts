import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Person } from '../../../src/console/platform/access/principal.ts'
import type { AuditedDatabase } from '../../../src/console/platform/audit/mac.ts'
import { createIds } from '../../../src/console/platform/database/ids.ts'
import { createSessions, isLive, listPeople, type Sessions } from '../../../src/console/sign-in/sessions.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { beyondFast } from '../../support/beyond-fast.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openDatabase } from '../../support/open-database.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { has, POSTGRES } from '../../support/tools.ts'

const limits = { idleSeconds: 600, absoluteSeconds: 3600, maxPerPerson: 3 }
const SECOND_MS = 1000
const FROM = { address: '192.0.2.1', requestId: 'r1' }
const CALLER = { ...FROM, actor: 'person:root', name: 'Root' }
const ada: Person = {
  subject: 'ada',
  name: 'Ada',
  workspaces: ['ws_1'],
  administrator: false,
  role: 'manager',
}
const bob: Person = { ...ada, subject: 'bob' }

describe.each(['sqlite' as const, ...beyondFast('postgres' as const)])('sessions in %s', dialect => {
  const isThere = dialect === 'sqlite' || has(POSTGRES)
  describe.skipIf(!isThere)('', () => {
    let server: PostgresServer | null = null
    beforeAll(async () => {
      if (dialect === 'postgres') server = await PostgresServer.started()
    })
    afterAll(() => server?.stop())

    let clock: ManualClock
    let database: AuditedDatabase
    let sessions: Sessions
    beforeEach(async () => {
      clock = new ManualClock()
      database = await openDatabase((await server?.database()) ?? 'sqlite::memory:')
      onTestFinished(() => database.close())
      sessions = createSessions({
        database,
        clock,
        randomBytes,
        newAuditId: createIds('audit', randomBytes),
        metrics: createMetrics(),
        limits,
      })
    })
    const rows = () => database.reader.selectFrom('sessions').selectAll().execute()

    test('hold the person and a CSRF secret of their own', async () => {
      const [first, second] = [await sessions.start(ada, FROM), await sessions.start(ada, FROM)]
      const found = await sessions.find(first)
      expect(found?.person).toEqual(ada)
      expect(found?.csrfSecret).not.toBe((await sessions.find(second))?.csrfSecret)
    })

    test('cannot be taken over by a reader of the database', async () => {
      const id = await sessions.start(ada, FROM)
      expect(id).toMatch(/^[\w-]{43}$/)
      expect(JSON.stringify(await rows())).not.toContain(id)
      const [row] = await rows()
      expect(await sessions.find(row?.digest ?? '')).toBeNull()
    })

    test.each(['', 'x', 'A'.repeat(43), "' or 1=1 --", '%'])('are not found by %j', async id => {
      await sessions.start(ada, FROM)
      expect(await sessions.find(id)).toBeNull()
    })

    test('end after the idle limit, not before', async () => {
      const id = await sessions.start(ada, FROM)
      clock.advance(limits.idleSeconds * SECOND_MS - 1)
      expect(await sessions.find(id)).not.toBeNull()
      clock.advance(limits.idleSeconds * SECOND_MS)
      expect(await sessions.find(id)).toBeNull()
    })

    test('continue while active, and end at the absolute limit', async () => {
      const id = await sessions.start(ada, FROM)
      const step = (limits.idleSeconds * SECOND_MS) / 2
      for (let ms = step; ms < limits.absoluteSeconds * SECOND_MS; ms += step) {
        clock.advance(step)
        expect(await sessions.find(id)).not.toBeNull()
      }
      clock.advance(step)
      expect(await sessions.find(id)).toBeNull()
    })

    test('are not written on every request', async () => {
      const id = await sessions.start(ada, FROM)
      const [before] = await rows()
      clock.advance(5 * SECOND_MS)
      await sessions.find(id)
      expect(await rows()).toEqual([before])
    })

    test('can be ended one by one or all of a person, and no others', async () => {
      const [first, second, third] = [
        await sessions.start(ada, FROM),
        await sessions.start(ada, FROM),
        await sessions.start(ada, FROM),
      ]
      const bobs = await sessions.start(bob, FROM)
      await sessions.end(first, FROM)
      expect(await sessions.find(first)).toBeNull()
      expect(await sessions.find(second)).not.toBeNull()
      await sessions.endAll(ada, CALLER)
      expect([await sessions.find(second), await sessions.find(third)]).toEqual([null, null])
      expect((await sessions.find(bobs))?.person.subject).toBe('bob')
    })

    test.each<[Person, string]>([
      [ada, 'manager'],
      [{ ...ada, role: 'viewer' }, 'viewer'],
      [{ ...ada, role: 'viewer', administrator: true }, 'administrator'],
    ])('are in the audit log: signing in with the role, and signing out; %j', async (person, role) => {
      const id = await sessions.start(person, FROM)
      await sessions.end(id, FROM)
      await sessions.end(id, FROM)
      await sessions.endAll(ada, CALLER)
      const entries = await Promise.all(
        (['audit', 'audit_queue'] as const).map(table =>
          database.reader.selectFrom(table).select(['action', 'actor', 'detail']).orderBy('id').execute(),
        ),
      )
      const origin = { by: 'Ada', from: FROM.address, requestId: FROM.requestId }
      expect(entries.flat().map(entry => ({ ...entry, detail: JSON.parse(entry.detail) }))).toEqual([
        { action: 'person.signed_in', actor: 'person:ada', detail: { role, ...origin } },
        { action: 'person.signed_out', actor: 'person:ada', detail: { sessions: 1, ...origin } },
      ])
    })

    test('stay ended although a request was in progress', async () => {
      const id = await sessions.start(ada, FROM)
      clock.advance((limits.idleSeconds * SECOND_MS) / 2)
      await Promise.all([sessions.find(id), sessions.end(id, FROM), sessions.find(id)])
      expect(await rows()).toEqual([])
    })

    test('are limited per person; the oldest ends', async () => {
      const ids: string[] = []
      for (let count = 0; count < 5; count++) {
        ids.push(await sessions.start(ada, FROM))
        clock.advance(SECOND_MS)
      }
      const found = await Promise.all(ids.map(id => sessions.find(id)))
      expect(found.map(session => session !== null)).toEqual([false, false, true, true, true])
      expect(await rows()).toHaveLength(3)
    })

    test('begin also for a person who has as many as allowed from before the clock was set back', async () => {
      for (let count = 0; count < limits.maxPerPerson; count++) await sessions.start(ada, FROM)
      clock.advance(-120 * SECOND_MS)
      const [first, second] = [await sessions.start(ada, FROM), await sessions.start(ada, FROM)]
      expect((await sessions.find(second))?.person).toEqual(ada)
      expect([await sessions.find(first), (await rows()).length]).toEqual([null, limits.maxPerPerson])
    })

    test('are listed by person, page by page, without those that have ended', async () => {
      const pageOf = async (limit: number, afterSubject: string | null) => {
        const page = await listPeople({ database, clock, limits }, { limit, afterSubject })
        const people = page.people.map(person => [person.subject, person.name, person.sessions])
        return [people, page.nextAfterSubject]
      }
      await sessions.start({ ...ada, subject: 'zoe', name: 'Zoe' }, FROM)
      clock.advance(limits.idleSeconds * SECOND_MS - 1)
      for (const person of [bob, ada, ada]) await sessions.start(person, FROM)
      expect(await pageOf(2, null)).toEqual([
        [
          ['ada', 'Ada', 2],
          ['bob', 'Ada', 1],
        ],
        'bob',
      ])
      expect(await pageOf(2, 'bob')).toEqual([[['zoe', 'Zoe', 1]], null])
      expect((await pageOf(1, null))[1]).toBe('ada')
      expect((await pageOf(3, null))[1]).toBeNull()
      clock.advance(1)
      expect(await pageOf(2, 'bob')).toEqual([[], null])
    })

    test('are deleted once they are over, and those that are not stay', async () => {
      const idle = await sessions.start(ada, FROM)
      clock.advance(limits.idleSeconds * SECOND_MS - SECOND_MS)
      const fresh = await sessions.start(bob, FROM)
      clock.advance(SECOND_MS)
      await sessions.purge()
      expect((await rows()).map(row => row.subject)).toEqual(['bob'])
      expect([await sessions.find(idle), (await sessions.find(fresh))?.person]).toEqual([null, bob])
    })
  })
})

describe('a session is live', () => {
  const live = (startedSeconds: number, seenSeconds: number, nowSeconds: number) =>
    isLive(
      { started_at_ms: startedSeconds * 1000, seen_at_ms: seenSeconds * 1000 },
      limits,
      nowSeconds * 1000,
    )

  test.each([
    [0, 0, 0, true],
    [0, 0, 599.999, true],
    [0, 0, 600, false],
    [0, 3599, 3599.999, true],
    [0, 3599, 3600, false],
    // The clock of the console that noted it is ahead.
    [0, 1, 0, true],
  ])('begun at %d s, last seen at %d s, now %d s: %s', (started, seen, now, expected) => {
    expect(live(started, seen, now)).toBe(expected)
  })
})
