import { describe, expect, test, vi } from 'vitest'
import { CountTable, listCounts, type ReportContent } from '../../../src/keys/usage/usage-counts.ts'
import { ReportSequence, refusedCounts, toReportBody } from '../../../src/keys/usage/usage-report.ts'

const CONTENT: ReportContent = { used: {}, counts: [], refusals: [] }

describe('a table of counts', () => {
  const count = (table: CountTable, id: string, route = 'files', code = 'ok', minute = 1) => {
    const row = table.ensureRow(id, 'ws_1')
    return row === null ? null : table.count(row, route, code, minute)
  }

  test('adds requests of one route, outcome and minute up, and tells others apart', () => {
    const table = new CountTable(100)
    for (const request of [[], [], ['workspace'], ['files', 'denied'], ['files', 'ok', 2]] as [][]) {
      expect(count(table, 'key_1', ...request)).toBe(true)
    }
    const [row] = table.takeOldest(100)
    expect(row).toMatchObject({ id: 'key_1', workspaceId: 'ws_1', lastUsedMs: 0 })
    if (row === undefined) throw new Error('There is no row')
    expect(
      listCounts(row).map(({ route, code, minute, count: number }) => [route, code, minute, number]),
    ).toEqual([
      ['files', 'ok', 2, 1],
      ['files', 'denied', 1, 1],
      ['workspace', 'ok', 1, 1],
      ['files', 'ok', 1, 2],
    ])
  })

  test('has room for so many rows and counts together, and then for further requests of the same', () => {
    const table = new CountTable(3)
    expect([count(table, 'key_1'), count(table, 'key_1', 'workspace')]).toEqual([true, true])
    expect(table.entries).toBe(3)
    expect([count(table, 'key_2'), count(table, 'key_1', 'other'), count(table, 'key_1')]).toEqual([
      null,
      false,
      true,
    ])
    expect(table.entries).toBe(3)
  })

  test('gives away the oldest rows, of the last one a part, with no more entries than asked for, and has room again', () => {
    const table = new CountTable(100)
    for (const key of ['key_1', 'key_2', 'key_3']) {
      count(table, key)
      count(table, key, 'workspace')
    }
    expect(table.entries).toBe(9)
    const taken = (entries: number) =>
      table.takeOldest(entries).map(row => [row.id, listCounts(row).map(({ route }) => route)])
    expect(taken(4)).toEqual([['key_1', ['workspace', 'files']]])
    expect(table.entries).toBe(6)
    expect(taken(5)).toEqual([
      ['key_2', ['workspace', 'files']],
      ['key_3', ['workspace']],
    ])
    expect(table.entries).toBe(2)
    expect(taken(3)).toEqual([['key_3', ['files']]])
    expect([table.entries, table.takeOldest(1)]).toEqual([0, []])
    expect(count(table, 'key_1')).toBe(true)
  })
})

describe('the counts that a response refuses', () => {
  const counts = [1, 20, 300].map(number => {
    return { keyId: 'key', workspaceId: 'ws', route: 'files', code: 'ok', minute: 1, count: number }
  })
  const refused = (response: unknown) =>
    refusedCounts(
      { ...CONTENT, gateway: 'g', sequence: 1, counts },
      typeof response === 'string' ? response : JSON.stringify(response),
    )

  test.each<[number, unknown]>([
    [21, { refused: 2, first: [{ index: 0 }, { list: 'counts', index: 1 }] }],
    [250, { refused: 90, requests: 250, first: [{ list: 'counts', index: 1 }] }],
    [321, { refused: 90, requests: 1e12 }],
    [1, { refused: 90, requests: -1, first: [{ index: 0 }] }],
    [0, { refused: 90, requests: 0, first: [{ index: 0 }] }],
    [
      300,
      {
        refused: 2,
        first: [
          { list: 'used', index: 0 },
          { list: 'counts', index: 2 },
        ],
      },
    ],
    [
      20,
      {
        refused: 8,
        first: [{ index: 1 }, { index: 1 }, { index: 9 }, { index: '2' }, { list: 'counts' }, null, 'x', 2],
      },
    ],
    [0, { refused: 0, first: [] }],
    [0, { refused: 1, first: { index: 0 } }],
    [0, { refused: 1 }],
    [0, {}],
    [0, []],
    [0, 'null'],
    [0, '1'],
    [0, '"refused"'],
    [0, ''],
    [0, 'no JSON'],
  ])('are %i requests for %j', (expected, response) => {
    expect(refused(response)).toBe(expected)
  })
})

describe('the numbers of reports', () => {
  test('go up by one with each that is settled; until then the same one is repeated', () => {
    const contents = [{ ...CONTENT, lost: 1 }, null, { ...CONTENT, lost: 2 }, null]
    const numbered = vi.fn()
    const reports = new ReportSequence('gateway-1', () => contents.shift() ?? null, numbered)
    const first = reports.next()
    expect(first).toEqual({ gateway: 'gateway-1', sequence: 1, ...CONTENT, lost: 1 })
    expect(reports.next()).toBe(first)
    reports.settle()
    expect(reports.next()).toBeNull()
    expect(reports.next()).toMatchObject({ sequence: 2, lost: 2 })
    expect(numbered.mock.calls.map(([{ sequence }]) => sequence)).toEqual([1, 2])
  })

  test('need no listener', () => {
    expect(new ReportSequence('gateway-1', () => CONTENT).next()).toMatchObject({ sequence: 1 })
  })
})

test('in the body of a report a count names its key, or its workspace if there is none', () => {
  const more = { workspaceId: 'ws_1', route: 'files', code: 'ok', minute: 1, count: 2 }
  const counts = [
    { keyId: 'key_1', ...more },
    { keyId: null, ...more },
  ]
  const { workspaceId, ...rest } = more
  expect(toReportBody({ ...CONTENT, gateway: 'g', sequence: 7, counts, lost: 3 })).toEqual({
    ...CONTENT,
    gateway: 'g',
    sequence: 7,
    counts: [
      { keyId: 'key_1', ...rest },
      { workspaceId, ...rest },
    ],
    lost: 3,
  })
})
