import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { verifyAudit } from '../../../src/console/audit/verify.ts'
import { createAuditQueue } from '../../../src/console/platform/audit/chain.ts'
import type { AuditEntry } from '../../../src/console/platform/audit/entries.ts'
import { createIds } from '../../../src/console/platform/database/ids.ts'
import { openReadOnly } from '../../../src/console/platform/open-database.ts'
import { trustIn } from '../../support/audit-trust.ts'
import { openDatabase } from '../../support/open-database.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { has, POSTGRES } from '../../support/tools.ts'

const newId = createIds('audit', randomBytes)

function entry(): AuditEntry {
  const atMs = Date.now()
  const about = { workspaceId: 'ws_1', keyId: 'key_1', action: 'key.issued' as const }
  return { id: newId(atMs), atMs, actor: 'admin-token', ...about, detail: { name: 'importer' } }
}

describe.skipIf(!has(POSTGRES))('audit entries of changes on a real PostgreSQL', () => {
  let server: PostgresServer
  let url: string
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  beforeEach(async () => {
    url = await server.migratedDatabase()
  })
  afterAll(() => server.stop())

  async function startConsole() {
    const database = { ...(await openDatabase(url)), audit: trustIn() }
    onTestFinished(() => database.close())
    const queue = createAuditQueue({ ...database, now: Date.now })
    const commit = (entries: readonly AuditEntry[]) => database.changes.run(tx => queue.add(tx, entries))
    return { database, commit, chain: () => queue.chain() }
  }
  async function verify() {
    const reader = await openReadOnly(url)
    try {
      return await verifyAudit(reader, { keptHead: null, keys: trustIn().keys, nowMs: Date.now() })
    } finally {
      await reader.destroy()
    }
  }

  test('of several consoles at once are each in the chain once, when the change is answered', async () => {
    const consoles = await Promise.all([startConsole(), startConsole()])
    const missing: string[] = []
    const change = async (number: number) => {
      const { commit, chain, database } = consoles[number % 2] ?? (await startConsole())
      const made = [entry(), entry()]
      await commit(made)
      await chain()
      const ids = made.map(({ id }) => id)
      const rows = await database.reader.selectFrom('audit').select('hash').where('id', 'in', ids).execute()
      if (rows.length < ids.length) missing.push(...ids)
    }
    await Promise.all(Array.from({ length: 60 }, (_, number) => change(number)))
    expect(missing).toEqual([])
    expect(await verify()).toMatchObject({ read: 120, queued: 0, problemCount: 0 })
  })

  test('that a console left when it died are added by another one, all of them', async () => {
    const dead = await startConsole()
    for (let times = 0; times < 3; times++) await dead.commit(Array.from({ length: 400 }, entry))
    expect(await verify()).toMatchObject({ read: 0, queued: 1200, problemCount: 0 })
    await (await startConsole()).chain()
    expect(await verify()).toMatchObject({ read: 1200, queued: 0, problemCount: 0 })
  })

  test('are not in the queue after their change is rolled back', async () => {
    const { database } = await startConsole()
    const queue = createAuditQueue({ ...database, now: Date.now })
    const failed = database.changes.run(async tx => {
      await queue.add(tx, [entry()])
      throw new Error('rolled back')
    })
    await expect(failed).rejects.toThrow('rolled back')
    expect(await verify()).toMatchObject({ read: 0, queued: 0 })
  })
})
