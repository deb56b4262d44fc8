import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  appendAudit,
  auditRowOf,
  CHAIN_START,
  chainRows,
} from '../../../src/control/registry/database/audit/audit-chain.ts'
import { verifyAudit } from '../../../src/control/registry/database/audit/verify-audit.ts'
import { createChangeWriter } from '../../../src/control/registry/database/change-writer.ts'
import type { Database } from '../../../src/control/registry/database/database.ts'
import { openDatabase } from '../../../src/control/registry/database/open-database.ts'
import { openReadOnly } from '../../../src/control/registry/database/open-read-only.ts'
import type { AuditEntry } from '../../../src/control/registry/operations/audit.ts'
import { createIds } from '../../../src/control/registry/operations/ids.ts'

const NOW_MS = Date.parse('2026-11-20T09:00:00Z')
const newId = createIds('audit', randomBytes)

function entry(number: number): AuditEntry {
  const atMs = NOW_MS + number
  const detail = { name: `key “${number}”`, scopes: ['files:read'], from: '192.0.2.1' }
  const about = { workspaceId: 'ws_1', keyId: `key_${number}`, action: 'key.issued' as const }
  return { id: newId(atMs), atMs, actor: 'admin-token', ...about, detail }
}

/** What every database behind the audit chain must do. @param freshUrl of an empty one, on a server or in a file */
export function describeAuditChain(name: string, freshUrl: () => Promise<string>): void {
  describe(`the audit chain in ${name}`, () => {
    let url: string
    let database: Database
    beforeEach(async () => {
      url = await freshUrl()
      database = await openDatabase(url)
    })
    afterEach(() => database.close())

    const append = (entries: readonly AuditEntry[]) =>
      createChangeWriter(database).run(tx => appendAudit(tx, entries, database.dialect))
    const appendMany = (count: number) =>
      append(Array.from({ length: count }, (_, index) => entry(index + 1)))
    async function verify(keptHead: string | null = null, unchainedBeforeMs: number | null = null) {
      const reader = await openReadOnly(url)
      try {
        return await verifyAudit(reader, { keptHead, unchainedBeforeMs, nowMs: NOW_MS + 10_000 })
      } finally {
        await reader.destroy()
      }
    }
    /** With the rights of the owner of the tables. */
    async function tamper(...statements: string[]) {
      const allow =
        database.dialect === 'sqlite'
          ? ['drop trigger audit_refuses_update', 'drop trigger audit_refuses_delete']
          : ['alter table audit disable trigger user']
      for (const text of [...allow, ...statements]) await sql.raw(text).execute(database.writer)
    }
    const idAt = async (sequence: number) => {
      const rows = database.reader.selectFrom('audit').select('id').where('sequence', '=', sequence)
      return (await rows.executeTakeFirstOrThrow()).id
    }

    test('is intact after concurrent changes, and its head is the last hash', async () => {
      await Promise.all(Array.from({ length: 20 }, (_, index) => append([entry(index), entry(index + 100)])))
      const report = await verify()
      expect(report).toMatchObject({ verified: 40, beforeChain: 0, problems: [], problemCount: 0 })
      const last = database.reader.selectFrom('audit').selectAll().where('sequence', '=', 40)
      expect((await last.executeTakeFirstOrThrow()).hash).toBe(report.head?.hash)
    })

    test('is intact when it is empty', async () => {
      expect(await verify(CHAIN_START.hash)).toMatchObject({ verified: 0, problemCount: 0, keptHeadAt: 0 })
    })

    test('goes back with a transaction that is rolled back', async () => {
      await appendMany(2)
      const failed = createChangeWriter(database).run(async tx => {
        await appendAudit(tx, [entry(3)], database.dialect)
        throw new Error('rolled back')
      })
      await expect(failed).rejects.toThrow('rolled back')
      await append([entry(4)])
      expect(await verify()).toMatchObject({ verified: 3, problemCount: 0 })
    })

    test('counts what waits to be added, and shows what has waited for too long', async () => {
      await appendMany(2)
      const young = auditRowOf(entry(3))
      await database.writer.insertInto('audit_queue').values(young).execute()
      expect(await verify()).toMatchObject({ verified: 2, queued: 1, problemCount: 0 })
      const old = auditRowOf({ ...entry(4), atMs: NOW_MS - 60_000 })
      await database.writer.insertInto('audit_queue').values(old).execute()
      const { queued, problems } = await verify()
      expect(queued).toBe(2)
      expect(problems).toEqual([expect.stringMatching(`^waiting: entry ${old.id}, `)])
    })

    test.each([
      ['actor', "'person:eve'"],
      ['detail', "'{}'"],
      ['at_ms', 'at_ms - 1'],
      ['key_id', "''"],
      ['workspace_id', "'ws_2'"],
      ['action', "'key.rotated'"],
      ['hash', "'0000'"],
      ['id', "'audit_x'"],
    ])('shows a changed %s, and where', async (column, value) => {
      await appendMany(5)
      await tamper(`update audit set ${column} = ${value} where sequence = 3`)
      const id = column === 'id' ? 'audit_x' : await idAt(3)
      const { problems } = await verify()
      expect(problems).toEqual([expect.stringMatching(`^changed: entry 3, ${id}, `)])
    })

    test.each([
      [1, 'removed: entry 1 is missing before entry 2, '],
      [3, 'removed: entry 3 is missing before entry 4, '],
      [5, 'removed: entry 5 is missing at the end of the chain'],
    ])('shows that entry %i was removed', async (sequence, problem) => {
      await appendMany(5)
      await tamper(`delete from audit where sequence = ${sequence}`)
      expect((await verify()).problems).toEqual([expect.stringMatching(`^${problem}`)])
    })

    test('shows that all entries or the head were removed', async () => {
      await appendMany(5)
      await tamper('delete from audit')
      expect((await verify()).problems).toEqual([
        'removed: entries 1 to 5 are missing at the end of the chain',
      ])
      await sql.raw('delete from audit_head').execute(database.writer)
      expect((await verify()).problems).toEqual(['removed: the head of the chain is missing'])
    })

    const columns = '(id, workspace_id, at_ms, actor, action, key_id, detail'
    const values = (id: string) =>
      `('${id}', 'ws_1', ${NOW_MS + 2}, 'person:eve', 'key.issued', 'key_1', '{}'`

    test.each([
      ['outside the chain', 'null', 'inserted: entry audit_x, .* is not in the chain'],
      ['after its end', '6', 'inserted: entry 6, audit_x, .* is beyond the head'],
      ['at a place that is taken', '3', 'inserted: entry 3, audit_x, .* has a place that is taken'],
    ])('shows an entry that was inserted %s', async (_, sequence, problem) => {
      await appendMany(5)
      await tamper(
        'drop index audit_by_sequence',
        `insert into audit ${columns}, sequence, hash) values ${values('audit_x')}, ${sequence}, 'abc')`,
      )
      expect((await verify()).problems).toEqual([expect.stringMatching(problem)])
    })

    test('goes on after the release before wrote to the new schema, and reports its entries', async () => {
      await sql.raw(`insert into audit ${columns}) values ${values('audit_0')})`).execute(database.writer)
      await append([entry(10)])
      await sql
        .raw(
          `insert into audit ${columns}) values ${values('audit_1').replace(`${NOW_MS + 2}`, `${NOW_MS + 50}`)})`,
        )
        .execute(database.writer)
      await append([entry(60)])
      const during = await verify()
      expect(during).toMatchObject({ verified: 2, beforeChain: 1, problemCount: 1 })
      expect(during.problems[0]).toContain('a console of the release before wrote it')
      const allowed = await verify(null, NOW_MS + 55)
      expect(allowed).toMatchObject({ verified: 2, beforeChain: 2, problemCount: 0 })
    })

    test('that was forged whole is shown by a head that was kept elsewhere, and by nothing else', async () => {
      await appendMany(3)
      const kept = (await verify()).head?.hash ?? ''
      await append([entry(4)])
      expect(await verify(kept)).toMatchObject({ keptHeadAt: 3, problemCount: 0 })
      const forged = chainRows(
        CHAIN_START,
        [1, 2, 3, 4].map(number => auditRowOf({ ...entry(number), actor: 'person:eve' })),
      )
      await tamper('delete from audit')
      await database.writer.insertInto('audit').values(forged).execute()
      const hash = forged.at(-1)?.hash ?? ''
      await database.writer.updateTable('audit_head').set({ sequence: 4, hash }).execute()
      expect((await verify()).problemCount).toBe(0)
      expect((await verify(kept)).problems).toEqual([
        expect.stringMatching('^the given head is not in the chain'),
      ])
    })

    test('is read in batches, and shows at most twenty problems', async () => {
      for (let times = 0; times < 5; times++) await appendMany(500)
      expect(await verify()).toMatchObject({ verified: 2500, problemCount: 0 })
      await tamper("update audit set actor = 'person:eve' where sequence between 990 and 1020")
      const { problems, problemCount } = await verify()
      expect([problemCount, problems.length]).toEqual([31, 20])
      expect(problems[0]).toContain('entry 990,')
    })

    test('is checked on a connection that cannot write', async () => {
      const reader = await openReadOnly(url)
      await expect(reader.deleteFrom('audit_head').execute()).rejects.toThrow(/read-?only/i)
      await reader.destroy()
    })
  })
}
