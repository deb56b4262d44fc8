import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { verifyAudit } from '../../../src/console/audit/verify.ts'
import { appendAudit, CHAIN_START } from '../../../src/console/platform/audit/chain.ts'
import type { AuditEntry } from '../../../src/console/platform/audit/entries.ts'
import type { AuditedDatabase } from '../../../src/console/platform/audit/mac.ts'
import { createIds } from '../../../src/console/platform/database/ids.ts'
import { openReadOnly } from '../../../src/console/platform/open-database.ts'
import { trustIn } from '../../support/audit-trust.ts'
import { openDatabase } from '../../support/open-database.ts'

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
    let database: AuditedDatabase
    beforeEach(async () => {
      url = await freshUrl()
      database = { ...(await openDatabase(url)), audit: trustIn() }
    })
    afterEach(() => database.close())

    const append = (entries: readonly AuditEntry[]) =>
      database.changes.run(tx => appendAudit(tx, entries, database))
    const appendMany = (count: number) =>
      append(Array.from({ length: count }, (_, index) => entry(index + 1)))
    async function verify(keptHead: string | null = null, { keys } = database.audit) {
      const reader = await openReadOnly(url)
      try {
        return await verifyAudit(reader, { keptHead, keys, nowMs: NOW_MS + 10_000 })
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
      expect(report).toMatchObject({ read: 40, unverified: [], problems: [], problemCount: 0 })
      const last = database.reader.selectFrom('audit').selectAll().where('sequence', '=', 40)
      expect((await last.executeTakeFirstOrThrow()).hash).toBe(report.head?.hash)
    })

    test('is intact when it is empty', async () => {
      expect(await verify(CHAIN_START.hash)).toMatchObject({ read: 0, problemCount: 0, keptHeadAt: 0 })
    })

    test('goes back with a transaction that is rolled back', async () => {
      await appendMany(2)
      const failed = database.changes.run(async tx => {
        await appendAudit(tx, [entry(3)], database)
        throw new Error('rolled back')
      })
      await expect(failed).rejects.toThrow('rolled back')
      await append([entry(4)])
      expect(await verify()).toMatchObject({ read: 3, problemCount: 0 })
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

    test('is read in batches, and shows at most twenty problems', async () => {
      for (let times = 0; times < 5; times++) await appendMany(500)
      expect(await verify()).toMatchObject({ read: 2500, problemCount: 0 })
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
