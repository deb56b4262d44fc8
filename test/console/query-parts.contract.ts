import fc from 'fast-check'
import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import {
  firstRows,
  isChosen,
  listAsRows,
  rowPlace,
  rowsFrom,
} from '../../src/console/platform/database/query-parts.ts'
import { openDatabase } from '../support/open-database.ts'
import { runs } from '../support/runs.ts'

const WORKSPACES = ['ws_a', 'ws_b', 'ws_c', 'ws_d']
/** Many at the same time, so that ids decide; ids of a workspace are not in the order of times. */
const ROWS = Array.from({ length: 60 }, (_, index) => ({
  workspace_id: WORKSPACES[(index * 7) % 4] ?? '',
  at_ms: 1_000 + ((index * 5) % 11),
  id: `id_${String((index * 37) % 60).padStart(2, '0')}`,
}))
const REST = { key_id: 'k', route: 'r', code: 'c', reason: 'r', request_id: 'q', address: 'a' }
const TABLE = { table: 'refusals', id: 'id' }

const queries = fc.record({
  value: fc.constantFrom('at_ms' as const, 'id' as const),
  workspaceIds: fc.option(fc.array(fc.constantFrom(...WORKSPACES, 'ws_none'), { maxLength: 5 })),
  after: fc.option(
    fc.record({ atMs: fc.integer({ min: 999, max: 1_012 }), row: fc.integer({ min: 0, max: 61 }) }),
  ),
  descending: fc.boolean(),
  count: fc.integer({ min: 1, max: 12 }),
  isOdd: fc.boolean(),
})
type Query = typeof queries extends fc.Arbitrary<infer Value> ? Value : never

function positionOf({ value, after }: Query) {
  if (after === null) return null
  const id = `id_${String(after.row).padStart(2, '0')}`
  return value === 'id' ? { value: id, id } : { value: after.atMs, id }
}

/** What the rows would be if all were read and sorted. */
function expectedRows(query: Query): string[] {
  const { value, workspaceIds, descending, count, isOdd } = query
  const after = positionOf(query)
  const sign = descending ? -1 : 1
  const compare = (a: { v: string | number; id: string }, b: { v: string | number; id: string }) =>
    sign * (a.v < b.v ? -1 : a.v > b.v ? 1 : a.id < b.id ? -1 : a.id > b.id ? 1 : 0)
  return ROWS.filter(row => workspaceIds === null || workspaceIds.includes(row.workspace_id))
    .filter(row => !isOdd || row.at_ms % 2 === 1)
    .map(row => ({ v: row[value], id: row.id }))
    .filter(row => after === null || compare(row, { v: after.value, id: after.id }) > 0)
    .sort(compare)
    .slice(0, count)
    .map(({ id }) => id)
    .toSorted()
}

/** @param freshUrl the address of a database without rows */
export function describeQueryParts(name: string, freshUrl: () => Promise<string>): void {
  const open = async () => {
    const database = await openDatabase(await freshUrl())
    onTestFinished(() => database.close())
    const rows = async <Row>(query: RawBuilder<Row>) => (await query.execute(database.writer)).rows
    return { ...database, rows }
  }

  test(`the first rows of some workspaces, on ${name}, are those of all rows in their order`, async () => {
    const { writer, rows, dialect } = await open()
    await writer
      .insertInto('refusals')
      .values(ROWS.map(row => ({ ...row, ...REST })))
      .execute()
    await fc.assert(
      fc.asyncProperty(queries, async query => {
        const { value, workspaceIds, descending, count, isOdd } = query
        const within = [null, isOdd ? sql<SqlBool>`at_ms % 2 = 1` : null]
        const after = positionOf(query)
        const first = firstRows({ ...TABLE, value, workspaceIds, within, after, descending, count }, dialect)
        const found = await rows(
          sql<{ id: string; sorted_value: unknown }>`select * from (${first}) as found`,
        )
        expect(found.map(({ id }) => id).toSorted()).toEqual(expectedRows(query))
        const stored = new Map(ROWS.map(row => [row.id, row[value]]))
        for (const row of found) expect(row.sorted_value).toBe(stored.get(row.id))
      }),
      { numRuns: runs(60, 500) },
    )
  })

  test(`rows and lists of parameters arrive as they are, on ${name}`, async () => {
    const { rows, dialect } = await open()
    // PostgreSQL has no text with a zero byte.
    const text = fc.string({ unit: 'grapheme' }).filter(value => !value.includes('\0'))
    const row = fc.tuple(text, fc.integer(), fc.maxSafeInteger())
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 5 }), async table => {
        const columns = [
          { values: table.map(([value]) => value), type: 'text' },
          { values: table.map(([, value]) => value), type: 'integer' },
          { values: table.map(([, , value]) => value), type: 'bigint' },
        ] as const
        const found = await rows(
          sql<{ c0: string; c1: number; c2: number }>`select c0, c1, c2 from ${rowsFrom(columns, dialect)}`,
        )
        expect(found.map(({ c0, c1, c2 }) => [c0, c1, c2])).toEqual(table)
        const texts = columns[0].values
        const listed = await rows(sql<{ value: string }>`select value from ${listAsRows(texts, dialect)}`)
        expect(listed.map(({ value }) => value)).toEqual(texts)
      }),
      { numRuns: runs(30, 300) },
    )
  })

  test(`of rows that a statement chooses, on ${name}, it changes those alone`, async () => {
    const { writer, rows, dialect } = await open()
    const plans = ['a', 'b', 'c'].map(plan => ({ workspace_id: `ws_${plan}`, plan }))
    await writer.insertInto('workspace_plans').values(plans).execute()
    const place = rowPlace(dialect)
    const chosen = sql`select ${place} from workspace_plans where plan < 'c' order by plan desc limit 1`
    const isIt = isChosen(place, chosen, dialect)
    const deleted = await rows(
      sql<{ plan: string }>`delete from workspace_plans where ${isIt} returning plan`,
    )
    expect(deleted).toEqual([{ plan: 'b' }])
  })
}
