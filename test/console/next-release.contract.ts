import { sql } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Migrations } from '../../src/console/platform/database/migrations.ts'
import { openDatabase as openMigrated } from '../../src/console/platform/open-database.ts'
import { MIGRATIONS } from '../../src/console/schema.ts'
import { startConsole } from '../support/console.ts'
import { fillDatabase } from '../support/filled-database.ts'
import { type Column, connect, type Row, type SqlConnection } from '../support/sql-connection.ts'

const ADMIN = '/admin/v1'
const KEYS = `${ADMIN}/workspaces/ws_1/keys`

/** This release, with one more migration. */
function nextRelease(statements: readonly string[]): Migrations {
  return {
    ...MIGRATIONS,
    '9001_made_up': async database => {
      for (const statement of statements) await sql.raw(statement).execute(database)
    },
  }
}

/** A made-up next release, which keeps to the rule. */
const NEXT = nextRelease([
  'create table made_up_owners (id text primary key, name text not null)',
  'alter table keys add column made_up_owner text',
  "alter table audit add column origin text not null default ''",
  'create index keys_by_made_up_owner on keys (made_up_owner)',
])

/** Each would break consoles of the release before that still run. */
const BREAKING: readonly (readonly [change: string, column: string, says: string])[] = [
  ['alter table keys rename column hint to ending', 'keys.hint', 'is missing'],
  ['alter table audit_queue drop column detail', 'audit_queue.detail', 'is missing'],
  ['drop table confirmations', 'confirmations.digest', 'is missing'],
  ['alter table keys rename to all_keys', 'keys.id', 'is missing'],
]

/** @param freshUrl the address of a database that is empty */
export function describeNextRelease(name: string, freshUrl: () => Promise<string>): void {
  describe(`the next release, on ${name}`, () => {
    test('only adds: its migrations keep each table, column, type and row of the release before', async () => {
      const steps = Object.keys(MIGRATIONS).map(last =>
        Object.fromEntries(Object.entries(MIGRATIONS).filter(([name]) => name <= last)),
      )
      const url = await freshUrl()
      for (const step of steps) expect(await conflictsAfter(url, step)).toEqual([])
      await fillDatabase(url, 20)
      const connection = await connected(url)
      const columns = await connection.columns()
      const rows = await rowsOf(connection, columns)
      expect(rows.length).toBeGreaterThan(60)
      expect(await conflictsAfter(url, NEXT)).toEqual([])
      const now = new Set(await rowsOf(connection, columns))
      expect(rows.filter(row => !now.has(row))).toEqual([])
    })

    test.each(BREAKING)('a migration with "%s" would be found', async (change, column, says) => {
      const url = await freshUrl()
      await (await openMigrated(url, MIGRATIONS)).close()
      const found = await conflictsAfter(url, nextRelease([change]))
      expect(found).toContain(`${column} ${says}`)
    })

    test('a console of this release goes on after a newer one has migrated the database under it', async () => {
      const url = await freshUrl()
      const old = await startConsole({ databaseUrl: url })
      const first = await issue(old, 'before the upgrade')
      const revoked = await issue(old, 'to revoke')
      await (await openMigrated(url, NEXT)).close()

      const second = await issue(old, 'during the upgrade')
      const listed = (await old.send('GET', KEYS)).body.keys.map(({ id }) => id)
      expect(listed.toSorted()).toEqual([first, revoked, second].toSorted())
      expect((await old.send('POST', `${ADMIN}/keys/${revoked}/revoke`)).status).toBe(200)
      const rotated = await old.send('POST', `${ADMIN}/keys/${first}/rotate`, {})
      expect(rotated.status).toBe(201)
      await old.stop()

      const next = await startConsole({ databaseUrl: url, migrations: NEXT })
      const ids = [first, revoked, second, rotated.body.key.id]
      const states = ids.map(async id => (await next.send('GET', `${ADMIN}/keys/${id}`)).body.key.state)
      expect(await Promise.all(states)).toEqual(['retiring', 'revoked', 'active', 'active'])
      expect((await next.send('POST', `${ADMIN}/keys/${second}/revoke`)).status).toBe(200)
      const { entries } = (await next.send('GET', `${ADMIN}/workspaces/ws_1/audit`)).body
      expect(entries.map(({ action }) => action)).toEqual([
        ...['key.revoked', 'key.rotated', 'key.revoked', 'key.issued', 'key.issued', 'key.issued'],
      ])
    })

    test('its schema is refused by a console of this release that starts, which names the migration', async () => {
      const url = await freshUrl()
      await (await openMigrated(url, NEXT)).close()
      await expect(startConsole({ databaseUrl: url })).rejects.toThrow(
        /newer Postern.*9001_made_up.*Start that newer version/,
      )
    })

    test('its schema is compared with its own migrations: a console of it names nothing but what differs', async () => {
      const url = await freshUrl()
      const database = await openMigrated(url, NEXT)
      await sql`drop index keys_by_made_up_owner`.execute(database.writer)
      await database.close()
      const { log } = await startConsole({ databaseUrl: url, migrations: NEXT })
      const named = log.flatMap(line => line['differences'] ?? [])
      expect(named).toEqual(['missing index keys_by_made_up_owner on keys'])
    })
  })
}

async function issue(console: Awaited<ReturnType<typeof startConsole>>, name: string): Promise<string> {
  const { status, body } = await console.send('POST', KEYS, { name, scopes: ['files:read'] })
  expect([name, status]).toEqual([name, 201])
  return body.key.id
}

async function connected(url: string): Promise<SqlConnection> {
  const connection = await connect(url)
  onTestFinished(() => connection.close())
  return connection
}

/** Migrates the database. @returns what a program that was written for the columns before would trip over */
async function conflictsAfter(url: string, migrations: Migrations): Promise<string[]> {
  const connection = await connected(url)
  const before = await connection.columns()
  await (await openMigrated(url, migrations)).close()
  return conflicts(before, await connection.columns())
}

export function conflicts(before: readonly Column[], after: readonly Column[]): string[] {
  const place = ({ table, name }: Column) => `${table}.${name}`
  const now = new Map(after.map(column => [place(column), column]))
  const changed = before.flatMap(column => {
    const same = now.get(place(column))
    if (same === undefined) return [`${place(column)} is missing`]
    return JSON.stringify(same) === JSON.stringify(column) ? [] : [`${place(column)} is not as it was`]
  })
  const tables = new Set(before.map(({ table }) => table))
  const known = new Set(before.map(place))
  const required = after.filter(
    column =>
      tables.has(column.table) && !known.has(place(column)) && !column.isNullable && !column.hasDefault,
  )
  return [...changed, ...required.map(column => `${place(column)} is new, and an insert must name it`)]
}

/** The rows of each table, in these columns. */
async function rowsOf(connection: SqlConnection, columns: readonly Column[]): Promise<string[]> {
  const rows: string[] = []
  for (const [table, own = []] of Object.entries(Object.groupBy(columns, ({ table }) => table))) {
    if (table.startsWith('kysely_')) continue
    const names = own.map(({ name }) => `"${name}"`).join(', ')
    const found: readonly Row[] = await connection.run(`select ${names} from "${table}"`)
    rows.push(...found.map(row => `${table} ${JSON.stringify(row)}`))
  }
  return rows
}
