import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { decodeCursor, type KeyQuery } from '../../../src/console/keys/search/key-query.ts'
import { compareSchema } from '../../../src/console/platform/open-console-database.ts'
import { MIGRATIONS } from '../../../src/console/schema.ts'
import { queryOf } from '../../bench/searches.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openDatabase } from '../../support/open-database.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { createRepository, insert } from '../../support/repository.ts'
import { someKey } from '../../support/stored-keys.ts'
import { has, POSTGRES } from '../../support/tools.ts'

const KEYS = 40
/** Fewer than there are keys: a page cannot examine all. */
const BOUNDS = { examined: 10, indexed: 5 }

describe.skipIf(!has(POSTGRES))('a console on a PostgreSQL without an index for texts', () => {
  let server: PostgresServer
  const cleanups: (() => Promise<void>)[] = []
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(async () => {
    for (const cleanUp of cleanups) await cleanUp()
    await server.stop()
  })

  async function runAsOwner(url: string, statements: readonly string[]): Promise<void> {
    const client = new pg.Client(url)
    await client.connect()
    try {
      for (const statement of statements) await client.query(statement)
    } finally {
      await client.end()
    }
  }

  /** A user that may create tables, and no extension. */
  async function urlOfPlainUser(ownersUrl?: string): Promise<string> {
    const url = new URL(ownersUrl ?? (await server.database()))
    const user = `postern_${randomBytes(6).toString('hex')}`
    const password = randomBytes(6).toString('hex')
    await runAsOwner(url.href, [
      `create role ${user} login password '${password}'`,
      `grant usage, create on schema public to ${user}`,
    ])
    cleanups.push(() => runAsOwner(url.href, [`drop owned by ${user}`, `drop role ${user}`]))
    return Object.assign(new URL(url), { username: user, password }).href
  }

  async function urlWithExtensionElsewhere(): Promise<string> {
    const url = await server.database()
    await runAsOwner(url, ['create schema extensions', 'create extension pg_trgm schema extensions'])
    return url
  }

  test.each([
    ['whose user may not create pg_trgm', () => urlOfPlainUser()],
    ['that has pg_trgm in a schema of its own', urlWithExtensionElsewhere],
  ])('%s starts, and a search finds every key page by page', async (_, urlOf) => {
    const database = await openDatabase(await urlOf())
    const repository = createRepository(database, new ManualClock(), 'console-1', BOUNDS)
    onTestFinished(() => repository.close())
    expect(database.hasTextIndex).toBe(false)
    const rare: string[] = []
    for (let made = 0; made < KEYS; made++) {
      const key = someKey({ name: made % 15 === 0 ? 'Zebra crossing' : 'build server' })
      await insert(repository, key)
      if (made % 15 === 0) rare.push(key.record.id)
    }
    const found: string[] = []
    const first = queryOf({ q: 'zebra', sort: 'createdAt', limit: '2' })
    let query: KeyQuery = first
    for (let pages = 0; pages < KEYS; pages++) {
      const { keys, nextCursor } = await repository.search(query)
      found.push(...keys.map(({ record }) => record.id))
      if (nextCursor === null) break
      query = { ...query, after: decodeCursor(query, nextCursor) }
    }
    expect(found).toEqual(rare)
    expect(await repository.count(first)).toBe(rare.length)
  })

  test('has the index after an administrator ran what the documentation says', async () => {
    const ownersUrl = await server.database()
    const url = await urlOfPlainUser(ownersUrl)
    await (await openDatabase(url)).close()
    const page = readFileSync('docs/operate/postgresql.md', 'utf8')
    const [, statements = ''] = /^## Searches by text$[\s\S]*?^```sql\n([\s\S]*?)^```$/m.exec(page) ?? []
    await runAsOwner(ownersUrl, [statements])
    const database = await openDatabase(url)
    onTestFinished(() => database.close())
    expect(database.hasTextIndex).toBe(true)
    // Only the owner may create the schema that it compares with.
    const ownersDatabase = await openDatabase(ownersUrl)
    onTestFinished(() => ownersDatabase.close())
    expect(await compareSchema(ownersDatabase, MIGRATIONS)).toEqual([])
  })
})
