import { hash, randomBytes } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { exportAudit, searchAudit } from '../../../src/console/audit/rows.ts'
import { verifyAudit } from '../../../src/console/audit/verify.ts'
import {
  appendAudit,
  CHAIN_START,
  type ChainHead,
  chainRows,
  createAuditQueue,
  isInChain,
  lockHead,
  signAgain,
} from '../../../src/console/platform/audit/chain.ts'
import type { AuditEntry } from '../../../src/console/platform/audit/entries.ts'
import type { AuditedDatabase, AuditTrust } from '../../../src/console/platform/audit/mac.ts'
import { createIds } from '../../../src/console/platform/database/ids.ts'
import type { AuditFields, QueuedAuditRow, Tables } from '../../../src/console/platform/database/tables.ts'
import { openReadOnly } from '../../../src/console/platform/open-database.ts'
import { trustIn } from '../../support/audit-trust.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openDatabase } from '../../support/open-database.ts'
import { SIGNING_SECRET } from '../../support/signing-secret.ts'

const NOW_MS = Date.parse('2026-11-20T09:00:00Z')
const FORMER = hash('sha256', 'a former signing secret', 'buffer')
const newId = createIds('audit', randomBytes)

function entry(number: number): AuditEntry {
  const atMs = NOW_MS + number
  const about = { workspaceId: 'ws_1', keyId: `key_${number}`, action: 'key.issued' as const }
  return { id: newId(atMs), atMs, actor: 'admin-token', ...about, detail: { name: 'importer' } }
}

/** What an attacker can do to the audit log who can write to the database and has no signing secret. */
export function describeForgedAudit(name: string, freshUrl: () => Promise<string>): void {
  describe(`an attacker with the rights of the owner of ${name}`, () => {
    let url: string
    let database: AuditedDatabase
    let trust: ReturnType<typeof trustIn>
    let clock: ManualClock
    beforeEach(async () => {
      url = await freshUrl()
      clock = new ManualClock()
      trust = trustIn()
      database = { ...(await openDatabase(url)), audit: trust }
      await append([1, 2, 3, 4, 5].map(entry))
    })
    afterEach(() => database.close())

    /** What a console does once a minute. */
    const signAgainBy = (audit: AuditTrust) => signAgain({ ...database, audit, now: () => clock.wallMs() })
    const append = (entries: readonly AuditEntry[], own = database) =>
      own.changes.run(tx => appendAudit(tx, entries, own))
    const queueOf = (own = database) => createAuditQueue({ ...own, now: () => clock.wallMs() })
    /** As on PostgreSQL; SQLite has such entries after a copy from there. */
    const enqueue = (entries: readonly AuditEntry[]) =>
      database.changes.run(tx => queueOf({ ...database, dialect: 'postgres' }).add(tx, entries))
    async function verify({ keys }: Pick<AuditTrust, 'keys'> = trust, keptHead: string | null = null) {
      const reader = await openReadOnly(url)
      try {
        return await verifyAudit(reader, { keptHead, keys, nowMs: clock.wallMs() })
      } finally {
        await reader.destroy()
      }
    }
    const shown = async (audit: AuditTrust = trust) => {
      const query = { filter: {}, workspaces: null, limit: 100, afterId: null }
      return (await searchAudit({ ...database, audit }, query)).entries
    }
    async function attack(run: (tables: Kysely<Tables>) => Promise<unknown>) {
      const allow =
        database.dialect === 'sqlite'
          ? ['drop trigger if exists audit_refuses_update', 'drop trigger if exists audit_refuses_delete']
          : ['alter table audit disable trigger user']
      for (const text of allow) await sql.raw(text).execute(database.writer)
      await run(database.writer)
    }
    const rowAt = (sequence: number) =>
      database.reader
        .selectFrom('audit')
        .selectAll()
        .where('sequence', '=', sequence)
        .executeTakeFirstOrThrow()
    const head = (): Promise<ChainHead> => lockHead(database.reader as never, 'sqlite')
    const moveHead = (tables: Kysely<Tables>, { sequence, hash }: ChainHead) =>
      tables.updateTable('audit_head').set({ sequence, hash }).execute()

    test('cannot add an entry beside the chain, also not with an early time: it is not shown, and verify names it', async () => {
      const id = 'audit_00000000000000000000000001'
      const copy = { ...(await rowAt(1)), sequence: null, hash: null, id, at_ms: 1, actor: 'person:framed' }
      await database.writer.insertInto('audit').values(copy).execute()
      expect((await verify()).problems).toEqual([
        expect.stringMatching(`^inserted: entry ${id}, .* is not in`),
      ])
      expect((await shown()).map(({ actor }) => actor)).not.toContain('person:framed')
      expect(trust.rejected).toEqual([
        { id, place: 'log', reason: 'invalid', signedBy: [...trust.keys.keys()][0] },
      ])
    })

    test('cannot stop reading, exporting, signing, chaining or checking with numbers that no console writes', async () => {
      const columns = sql.raw('id, workspace_id, at_ms, actor, action, key_id, detail, signed_by, mac')
      const insert = (table: 'audit' | 'audit_queue', id: string, atMs: bigint) =>
        sql`insert into ${sql.table(table)} (${columns})
          select ${id}, workspace_id, ${sql.raw(`${atMs}`)}, 'eve', action, key_id, detail, signed_by, mac
          from audit where sequence = 1`.execute(database.writer)
      const large = 2n ** 60n + 1n
      await insert('audit', 'audit_0', large)
      await insert('audit', 'audit_1', -large)
      await insert('audit_queue', 'audit_2', large)
      const ids = ['audit_0', 'audit_1', 'audit_2']
      for (const place of [large, -large]) {
        const id = `audit_at${place}`
        await insert('audit', id, 1n)
        await attack(tables =>
          sql`update audit set sequence = ${sql.raw(`${place}`)} where id = ${id}`.execute(tables),
        )
        ids.push(id)
      }
      await enqueue([entry(6)])
      await queueOf().chainLeft()

      const { read, problems, problemCount } = await verify()
      expect([read, problemCount]).toEqual([6, 5])
      for (const id of ids) {
        expect(problems).toContainEqual(expect.stringMatching(`^(inserted|forged): entry .*${id}, `))
      }
      expect((await shown()).map(({ actor }) => actor)).toEqual(Array(6).fill('admin-token'))
      const exported = exportAudit(database, 100)
      expect((await exported.next()).value).toHaveLength(6)
      await signAgainBy(trustIn(FORMER, SIGNING_SECRET))
      expect(await shown(trustIn(FORMER))).toHaveLength(6)
    })

    test.each([
      ['without a MAC', () => ({ signed_by: null, mac: null })],
      ['with the MAC of another entry', ({ signed_by, mac }: AuditFieldsWithMac) => ({ signed_by, mac })],
    ])('cannot add an entry %s at the end of the chain, with right hashes', async (_, macOf) => {
      const last = await rowAt(5)
      const [forged] = chainRows(
        await head(),
        [fieldsOf({ ...last, id: 'audit_x', actor: 'eve' })],
        new Map(),
      )
      if (forged === undefined) throw new Error('no row')
      await database.writer
        .insertInto('audit')
        .values({ ...forged, ...macOf(last) })
        .execute()
      await moveHead(database.writer, forged)
      expect((await verify()).problems).toEqual([expect.stringMatching('^forged: entry 6, audit_x, ')])
      expect((await shown()).map(({ id }) => id)).not.toContain('audit_x')
      // What a console adds later does not make it genuine.
      await append([entry(6)])
      expect(await verify()).toMatchObject({ read: 7, problemCount: 1 })
    })

    test('cannot write the log anew behind a head, or from the first entry on', async () => {
      const rows = await database.reader.selectFrom('audit').selectAll().orderBy('sequence').execute()
      const forged = chainRows(
        CHAIN_START,
        rows.map(row => fieldsOf({ ...row, actor: 'eve' })),
        new Map(),
      )
      const signed = forged.map((row, at) => ({
        ...row,
        signed_by: rows[at]?.signed_by ?? null,
        mac: rows[at]?.mac ?? null,
      }))
      await attack(async tables => {
        await tables.deleteFrom('audit').execute()
        await tables.insertInto('audit').values(signed).execute()
        await moveHead(tables, signed.at(-1) ?? CHAIN_START)
      })
      const { problems } = await verify()
      expect(problems).toHaveLength(5)
      expect(problems[0]).toMatch(/^forged: entry 1, .* was not written by a console/)
      expect(await shown()).toEqual([])
    })

    test('cannot change, move or swap entries, not even with right hashes', async () => {
      const rows = await database.reader.selectFrom('audit').selectAll().orderBy('sequence').execute()
      const [first, second, third, ...others] = rows.map(row => ({ ...row }))
      if (first === undefined || second === undefined || third === undefined) throw new Error('no rows')
      const order = [first, third, { ...second, workspace_id: 'ws_2' }, ...others]
      const linked = chainRows(CHAIN_START, order.map(fieldsOf), new Map())
      const moved = linked.map((row, at) => ({
        ...row,
        signed_by: first.signed_by,
        mac: order[at]?.mac ?? null,
      }))
      await attack(async tables => {
        await tables.deleteFrom('audit').execute()
        await tables.insertInto('audit').values(moved).execute()
        await moveHead(tables, moved.at(-1) ?? CHAIN_START)
      })
      expect((await verify()).problems.map(problem => problem.slice(0, 15))).toEqual([
        ...['forged: entry 2', 'forged: entry 3', 'forged: entry 4', 'forged: entry 5'],
      ])
      expect((await shown()).map(({ id }) => id)).toEqual([first.id])
    })

    test('cannot put an entry of another history of the same log, as before a restore, into this one', async () => {
      const other = await rowAt(4)
      await attack(async tables => {
        await tables.deleteFrom('audit').where('sequence', '>', 3).execute()
        await moveHead(tables, (await rowAt(3)) as ChainHead)
      })
      await append([entry(14), entry(15)])
      await database.writer.deleteFrom('audit').where('sequence', '=', 4).execute()
      await database.writer.insertInto('audit').values(other).execute()
      expect((await verify()).problems).toEqual([expect.stringMatching('^changed: entry 5, ')])
    })

    test('is found by a head that was noted elsewhere once the newest entries are cut off with their head', async () => {
      const noted = await head()
      const isIn = (noted: ChainHead) => isInChain(database.reader, noted, trust)
      await attack(async tables => {
        await tables.deleteFrom('audit').where('sequence', '>', 3).execute()
        await moveHead(tables, (await rowAt(3)) as ChainHead)
      })
      expect(await verify()).toMatchObject({ problemCount: 0 })
      expect((await verify(trust, noted.hash)).problems).toEqual([
        expect.stringMatching('^the given head is not in the chain'),
      ])
      expect(await isIn(noted)).toBe(false)
      await append([entry(6), entry(7)])
      expect(await isIn(noted)).toBe(false)
      expect(await isIn(await head())).toBe(true)
    })

    test('cannot let the console add an entry from the queue that it did not write', async () => {
      await enqueue([entry(6), entry(7)])
      const [waiting] = await database.reader.selectFrom('audit_queue').selectAll().orderBy('id').execute()
      if (waiting === undefined) throw new Error('nothing waits')
      const inserted = { ...waiting, id: 'audit_0', actor: 'person:framed' }
      const unsigned = { ...inserted, id: 'audit_1', signed_by: null, mac: null }
      await database.writer.insertInto('audit_queue').values([inserted, unsigned]).execute()
      await database.writer
        .updateTable('audit_queue')
        .set({ actor: 'eve' })
        .where('id', '=', waiting.id)
        .execute()
      const before = await verify()
      expect(before).toMatchObject({ queued: 1, problemCount: 3 })
      expect(before.problems[0]).toMatch(/^forged: entry audit_0, .* was not written by a console/)
      const queue = queueOf()
      await queue.chainLeft()
      expect(await verify()).toMatchObject({ read: 6, queued: 0, problemCount: 3 })
      expect((await shown()).map(({ actor }) => actor)).toEqual(Array(6).fill('admin-token'))
      const rejected = trust.rejected.map(({ id, reason }) => [id, reason])
      expect(rejected).toEqual([
        ['audit_0', 'invalid'],
        [waiting.id, 'invalid'],
        ['audit_1', 'invalid'],
      ])
      // They are looked at once, and stay as evidence.
      await queue.chainLeft()
      expect(trust.rejected).toHaveLength(3)
    })

    test('cannot stop the queue by putting an entry there that is in the chain already', async () => {
      await enqueue([entry(6)])
      const [waiting] = await database.reader.selectFrom('audit_queue').selectAll().execute()
      if (waiting === undefined) throw new Error('nothing waits')
      const queue = queueOf()
      await queue.chainLeft()
      await database.writer.insertInto('audit_queue').values(waiting).execute()
      await enqueue([entry(7)])
      await queue.chainLeft()
      const report = await verify()
      expect(report).toMatchObject({ read: 7, queued: 0 })
      expect(report.problems).toEqual([
        expect.stringMatching(`${waiting.id}, .* is in the log and in the queue`),
      ])
      expect(trust.rejected).toMatchObject([{ id: waiting.id, reason: 'repeated' }])
    })

    test('cannot use the MAC of a waiting entry in the chain', async () => {
      await enqueue([entry(6)])
      const [waiting] = await database.reader.selectFrom('audit_queue').selectAll().execute()
      if (waiting === undefined) throw new Error('nothing waits')
      const { signed_by, mac, rejected_at_ms: _, ...fields } = waiting
      const [forged] = chainRows(await head(), [fields], new Map())
      if (forged === undefined) throw new Error('no row')
      await database.writer
        .insertInto('audit')
        .values({ ...forged, signed_by, mac })
        .execute()
      await moveHead(database.writer, forged)
      await database.writer.deleteFrom('audit_queue').execute()
      expect((await verify()).problems).toEqual([expect.stringMatching('^forged: entry 6')])
    })

    test('shows what waits, and what has waited for too long', async () => {
      await enqueue([entry(6), { ...entry(7), atMs: clock.wallMs() - 61_000 }])
      const { queued, problems, problemCount, lateCount } = await verify()
      expect([queued, problemCount, lateCount]).toEqual([2, 1, 1])
      expect(problems).toEqual([expect.stringMatching('^waiting: entry audit_')])
    })

    test('gains nothing from an entry in the name of a secret that is not given: it is not shown, and not verified', async () => {
      await database.writer
        .insertInto('audit_queue')
        .values({
          ...{ ...fieldsOf(await rowAt(1)), id: 'audit_0', signed_by: '0123456789abcdef' },
          mac: 'x',
          rejected_at_ms: null,
        })
        .execute()
      await queueOf().chainLeft()
      expect(await verify()).toMatchObject({
        read: 5,
        unverified: [{ signedBy: '0123456789abcdef', count: 1 }],
      })
      expect(await shown()).toHaveLength(5)
    })

    test('without any secret given, nothing is called intact', async () => {
      expect(await verify({ keys: new Map() })).toMatchObject({
        problemCount: 0,
        unverified: [{ signedBy: [...trust.keys.keys()][0], count: 5 }],
      })
    })

    describe('after a signing secret was replaced', () => {
      const both = trustIn(FORMER, SIGNING_SECRET)
      const alone = trustIn(FORMER)

      test('entries of both secrets are verified with both, and those of the missing one are not', async () => {
        await append([entry(6)], { ...database, audit: both })
        expect(await verify(both)).toMatchObject({ read: 6, unverified: [], problemCount: 0 })
        const { unverified, problemCount } = await verify(alone)
        expect([problemCount, unverified]).toEqual([
          0,
          [{ signedBy: [...trust.keys.keys()][0], count: 5, first: expect.stringContaining('entry 1, ') }],
        ])
        expect(await shown(both)).toHaveLength(6)
        expect(await shown(alone)).toHaveLength(1)
      })

      test('a console signs the entries again, so that the old secret can be removed', async () => {
        await append([entry(6)], { ...database, audit: both })
        const noted = await head()
        await signAgainBy(both)
        const report = await verify(alone, noted.hash)
        expect(report).toMatchObject({ read: 6, keptHeadAt: 6, unverified: [], problemCount: 0 })
        expect(await shown(alone)).toHaveLength(6)
      })

      test('a forged entry is not signed again', async () => {
        await attack(tables =>
          tables.updateTable('audit').set({ actor: 'eve' }).where('sequence', '=', 3).execute(),
        )
        await signAgainBy(both)
        expect(await shown(alone)).toHaveLength(4)
      })

      test('entries of a secret that another console still signs with are left to it', async () => {
        await signAgainBy(trust)
        await signAgainBy(both)
        expect(await shown(alone)).toEqual([])
        clock.advance(300_001)
        await signAgainBy(both)
        expect(await shown(alone)).toHaveLength(5)
      })

      test('an entry that waits while its secret is not given is added once it is', async () => {
        await enqueue([entry(6)])
        await queueOf({ ...database, audit: alone }).chainLeft()
        expect(await verify(both)).toMatchObject({ read: 5, queued: 1 })
        await queueOf({ ...database, audit: both }).chainLeft()
        expect(await verify(both)).toMatchObject({ read: 6, queued: 0, problemCount: 0 })
      })
    })

    test('the triggers let nothing of an entry be changed but its signature', async () => {
      const change = (column: string) =>
        sql.raw(`update audit set ${column} = ${column}`).execute(database.writer)
      for (const column of [
        'id',
        'workspace_id',
        'at_ms',
        'actor',
        'action',
        'key_id',
        'detail',
        'sequence',
        'hash',
      ]) {
        await expect(change(column), column).rejects.toThrow('append-only')
      }
      await expect(sql`delete from audit`.execute(database.writer)).rejects.toThrow('append-only')
      await change('mac')
    })
  })
}

type AuditFieldsWithMac = Pick<QueuedAuditRow, 'signed_by' | 'mac'>

function fieldsOf({ id, workspace_id, at_ms, actor, action, key_id, detail }: AuditFields): AuditFields {
  return { id, workspace_id, at_ms, actor, action, key_id, detail }
}
