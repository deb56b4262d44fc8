import { expect, test } from 'vitest'
import { NOTHING_PRINTED, newEntries } from '../../src/cli/commands/audit.ts'
import { renderTable } from '../../src/cli/output/list.ts'

/** More than a call takes arguments. */
const MANY = 130_000

test('a list of 130,000 rows is printed as a table, in a time that grows with its rows and not with their square', () => {
  const rows = Array.from({ length: MANY }, (_, index) => `key ${index}`)
  const columns = [{ title: 'NAME', text: (row: string) => row }]
  const room = { width: 80, isWide: false, nowMs: 0, paint: (_: string, text: string) => text }
  const lines = renderTable(columns, rows, room).split('\n')
  expect([lines[0], lines[1], lines[MANY], lines.length]).toEqual([
    'NAME',
    'key 0',
    `key ${MANY - 1}`,
    MANY + 2,
  ])
})

test('as many entries of the audit log can be followed', () => {
  const at = '2026-11-20T09:00:00.000Z'
  const about = { at, workspaceId: null, actor: 'operator', action: 'token.issued', keyId: null, detail: {} }
  const read = Array.from({ length: MANY }, (_, index) => ({ ...about, id: `aud_${index}` }))
  expect(newEntries(NOTHING_PRINTED, read, Date.parse(at)).printed.fromMs).toBe(Date.parse(at) - 10_000)
})
