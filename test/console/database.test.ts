import { execFile } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { openDatabase } from '../support/open-database.ts'
import { insert, openRepository } from '../support/repository.ts'
import { NOW_MS, someKey } from '../support/stored-keys.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

const clock = { wallMs: () => NOW_MS, monotonicMs: () => 0 }
const run = promisify(execFile)
const DATABASE_MODULE = new URL('../support/open-database.ts', import.meta.url).href

describe('the console’s database', () => {
  test('keeps committed changes when it is opened again', async () => {
    const url = `sqlite:${join(databaseDirectory(), 'a.db')}`
    const key = someKey()
    const before = await openRepository(url, clock)
    await insert(before, key)
    await before.close()
    const after = await openRepository(url, clock)
    expect(await after.findById(key.record.id)).toEqual(key)
    expect(await after.findPendingChanges(key.digest)).toHaveLength(1)
    await after.close()
  })

  test('survives power loss: write-ahead log, full sync, foreign keys on', async () => {
    const database = await openDatabase(`sqlite:${join(databaseDirectory(), 'a.db')}`)
    for (const connection of [database.writer, database.reader]) {
      const pragma = async (name: string) =>
        Object.values(
          (await sql<Record<string, unknown>>`pragma ${sql.raw(name)}`.execute(connection)).rows[0] ?? {},
        )
      expect(await pragma('journal_mode')).toEqual(['wal'])
      expect(await pragma('synchronous')).toEqual([2])
      expect(await pragma('foreign_keys')).toEqual([1])
      // The wait for a lock must not stop the process.
      expect(await pragma('busy_timeout')).toEqual([0])
    }
    await database.close()
  })

  test('is readable only by its owner', async () => {
    const file = join(databaseDirectory(), 'a.db')
    const database = await openDatabase(`sqlite:${file}`)
    expect(statSync(file).mode & 0o077).toBe(0)
    expect(statSync(`${file}-wal`).mode & 0o077).toBe(0)
    await database.close()
  })

  test('refuses a schema of a newer Postern, and says what to do', async () => {
    const file = join(databaseDirectory(), 'a.db')
    await (await openDatabase(`sqlite:${file}`)).close()
    const other = new DatabaseSync(file)
    other.exec("INSERT INTO kysely_migration VALUES ('9999_from_the_future', '2030-01-01T00:00:00Z')")
    other.close()
    await expect(openDatabase(`sqlite:${file}`)).rejects.toThrow(
      /newer Postern.*9999.*Start that newer version/,
    )
  })

  test('is migrated once if several consoles start at the same time', async () => {
    const url = `sqlite:${join(databaseDirectory(), 'a.db')}`
    // Processes of their own: SQLite waits for a lock by stopping the whole thread.
    const script = `const { openDatabase } = await import(${JSON.stringify(DATABASE_MODULE)})
      await (await openDatabase(${JSON.stringify(url)})).close()`
    const start = () => run(process.execPath, ['--input-type=module', '--eval', script])
    await Promise.all([start(), start(), start(), start()])
    const database = await openDatabase(url)
    const applied = await database.reader.selectFrom('kysely_migration').select('name').execute()
    const names = applied?.map(({ name }) => name) ?? []
    expect(names).toContain('0001_first_tables')
    expect(names).toEqual([...new Set(names)])
    await database.close()
  })

  test.each([
    ['postgres://user:hunter2@127.0.0.1:1/postern', /cannot reach PostgreSQL/],
    ['postgresql://user:hunter2@db.invalid/postern', /cannot reach PostgreSQL/],
    ['postgres://user:hunter2@[/postern', /has a host or port that is malformed/],
    ['mysql://user:hunter2@db/postern', /must be sqlite:FILE/],
    ['sqlite:', /must be sqlite:FILE/],
    ['sqlite:/no/such/directory/a.db', /cannot open the SQLite file \/no\/such/],
  ])('refuses %s with a sentence that repeats no password', async (url, sentence) => {
    const refusal = await openDatabase(url).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(Error)
    expect(String(refusal)).toMatch(sentence)
    expect(String(refusal)).not.toContain('hunter2')
  })
})
