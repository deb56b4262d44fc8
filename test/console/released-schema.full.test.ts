import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openDatabase } from '../../src/console/platform/database/open-database.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { type Column, connect, type Row, type SqlConnection } from '../support/sql-connection.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'

const RELEASED = fileURLToPath(new URL('released/', import.meta.url))
/** The release before is the last of them. */
const VERSIONS = readdirSync(RELEASED, { withFileTypes: true })
  .flatMap(entry => (entry.isDirectory() ? [entry.name] : []))
  .toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }))
const VERSION = VERSIONS.at(-1) ?? ''
const read = (file: string) => readFileSync(join(RELEASED, VERSION, file), 'utf8')
type Dialect = 'sqlite' | 'postgres'

/** Its schema and rows, and the statements that its console sends: see released/record-release.ts. */
async function loadRelease(url: string, dialect: Dialect): Promise<SqlConnection> {
  const loading = await connect(url)
  await loading.script(read(`${dialect}.sql`))
  await loading.close()
  const connection = await connect(url)
  onTestFinished(() => connection.close())
  return connection
}

function statementsOf(dialect: Dialect): readonly string[] {
  const lines = read(`${dialect}.statements.jsonl`).trim().split('\n')
  return lines.map(line => JSON.parse(line) as string)
}

/** What a program that was written for the columns before would trip over. */
function conflicts(before: readonly Column[], after: readonly Column[]): string[] {
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

async function failingStatements(connection: SqlConnection, dialect: Dialect): Promise<string[]> {
  const failing: string[] = []
  for (const sql of statementsOf(dialect)) {
    await connection.prepare(sql).catch((error: Error) => failing.push(`${error.message}: ${sql}`))
  }
  return failing
}

/** The rows of each table, in the columns that the release has. */
async function rowsOf(connection: SqlConnection, columns: readonly Column[]): Promise<string[]> {
  const rows: string[] = []
  for (const [table, own = []] of Object.entries(Object.groupBy(columns, ({ table }) => table))) {
    const names = own.map(({ name }) => `"${name}"`).join(', ')
    const found: readonly Row[] = await connection.run(`select ${names} from "${table}"`)
    rows.push(...found.map(row => `${table} ${JSON.stringify(row)}`))
  }
  return rows
}

async function expectOnlyAdditions(url: string, dialect: Dialect): Promise<void> {
  const connection = await loadRelease(url, dialect)
  const columns = await connection.columns()
  expect(columns.length).toBeGreaterThan(50)
  const statements = await failingStatements(connection, dialect)
  expect(statements).toEqual([])
  const rows = await rowsOf(connection, columns)
  expect(rows.filter(row => /^(keys|audit|notices|key_use|confirmations) /.test(row)).length).toBeGreaterThan(
    15,
  )

  await (await openDatabase(url)).close()

  expect(conflicts(columns, await connection.columns())).toEqual([])
  expect(await failingStatements(connection, dialect)).toEqual([])
  const now = new Set(await rowsOf(connection, columns))
  expect(rows.filter(row => !now.has(row))).toEqual([])
}

/** Each would break consoles of the release before that still run. */
const BREAKING: readonly (readonly [change: string, column: string, says: RegExp])[] = [
  ['alter table keys rename column hint to ending', 'keys.hint', /is missing/],
  ['alter table audit drop column detail', 'audit.detail', /is missing/],
  ['drop table confirmations', 'confirmations.digest', /is missing/],
  ['alter table keys rename to all_keys', 'keys.id', /is missing/],
]

async function expectFound(url: string, dialect: Dialect, change: string, column: string, says: RegExp) {
  const connection = await loadRelease(url, dialect)
  const columns = await connection.columns()
  await connection.script(change)
  const found = conflicts(columns, await connection.columns())
  expect(found).toContainEqual(expect.stringMatching(says))
  expect(found.join('\n')).toContain(column)
  expect((await failingStatements(connection, dialect)).length).toBeGreaterThan(0)
}

const onlyAdd =
  'the migrations keep each table, column, type and row of the release before, and each of its statements can be prepared'

describe('on SQLite', () => {
  const url = () => `sqlite:${join(temporaryDirectory(), 'keys.db')}`
  test(onlyAdd, () => expectOnlyAdditions(url(), 'sqlite'))
  test.each(BREAKING)('a migration with "%s" would be found', (...row) =>
    expectFound(url(), 'sqlite', ...row),
  )
  test('a new column that an insert must name would be found', async () => {
    const connection = await loadRelease(url(), 'sqlite')
    const columns = await connection.columns()
    await connection.script("alter table keys add column owner text not null default ''")
    const after = await connection.columns()
    expect(conflicts(columns, after)).toEqual([])
    const required = after.map(column =>
      column.name === 'owner' ? { ...column, hasDefault: false } : column,
    )
    expect(conflicts(columns, required)).toEqual(['keys.owner is new, and an insert must name it'])
  })
})

describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())

  test(onlyAdd, async () => expectOnlyAdditions(await server.database(), 'postgres'))
  test.each(BREAKING)('a migration with "%s" would be found', async (...row) =>
    expectFound(await server.database(), 'postgres', ...row),
  )
  test('another type of a column would be found', async () => {
    const connection = await loadRelease(await server.database(), 'postgres')
    const columns = await connection.columns()
    await connection.script('alter table keys alter column version type bigint')
    expect(conflicts(columns, await connection.columns())).toEqual(['keys.version is not as it was'])
  })
})
