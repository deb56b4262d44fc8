import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
} from 'kysely'
import { describe, expect, test } from 'vitest'
import type { Tables } from '../../../src/console/platform/database/tables.ts'
import { usageTables } from '../../../src/console/schema.ts'
import { parseUsageRange } from '../../../src/console/usage/read-usage.ts'
import { checkReport } from '../../../src/console/usage/reports/check-report.ts'
import { partitionsCovering, partitionsFor, pastPartitions } from '../../../src/console/usage/reports/rows.ts'
import { foldReports, REFUSALS_KEPT } from '../../../src/console/usage/reports/store-reports.ts'
import { NOW_MS } from '../../support/stored-keys.ts'
import { count, report } from './usage.contract.ts'

const MINUTE = Math.floor(NOW_MS / 60_000)
const DAY_MS = 86_400_000
const known = {
  findWorkspace: (keyId: string) => (keyId === 'key_a' ? 'ws_1' : null),
  hasWorkspace: (workspaceId: string) => workspaceId === 'ws_1',
}
const valid = { keyId: 'key_a', route: 'files', code: 'ok', minute: MINUTE, count: 2 }

describe('an entry that is not valid is refused by itself', () => {
  test.each<[string, object, string]>([
    ['an unknown key', { keyId: 'key_x' }, 'unknown key'],
    ['a negative count', { count: -1 }, 'count must be a whole number from 1 to 1000000000'],
    ['a count of nothing', { count: 0 }, 'count must be a whole number from 1 to 1000000000'],
    ['a part of a request', { count: 1.5 }, 'count must be a whole number from 1 to 1000000000'],
    ['a time from the future', { minute: MINUTE + 11 }, 'is in the future'],
    ['a time long ago', { minute: MINUTE - 14 * 1440 }, 'is more than 13 days old'],
    ['a route that no gateway can have', { route: 'a b' }, 'not a count in the documented form'],
    ['a route in capitals', { route: 'Files' }, 'not a count in the documented form'],
    ['a route with a dot', { route: 'v1.files' }, 'not a count in the documented form'],
    ['a route of 33 characters', { route: 'f'.repeat(33) }, 'not a count in the documented form'],
    ['key and workspace', { workspaceId: 'ws_1' }, 'needs either keyId or workspaceId'],
    ['an unknown workspace', { keyId: undefined, workspaceId: 'ws_2' }, 'unknown workspace'],
  ])('%s', (_, difference, error) => {
    const { counts, refused } = checkReport(
      { counts: [{ ...valid, ...difference }, valid, null] },
      known,
      NOW_MS,
    )
    expect(counts).toMatchObject([{ workspaceId: 'ws_1', keyId: 'key_a', count: 2 }])
    expect(refused.counts).toBe(2)
    expect(refused.first).toEqual([
      { list: 'counts', index: 0, error },
      { list: 'counts', index: 2, error: 'must be an object' },
    ])
  })

  test('a refusal with a path or a query in it', () => {
    const refusal = {
      at: NOW_MS,
      keyId: 'key_a',
      route: 'files',
      code: 'not_found',
      reason: 'other_workspace',
    }
    const good = { ...refusal, requestId: 'r-1', address: '192.0.2.0/24' }
    const { refusals, refused } = checkReport(
      { refusals: [{ ...good, requestId: '/api/v1?key=wsk_1' }, { ...good, address: 'example.com' }, good] },
      known,
      NOW_MS,
    )
    expect(refusals).toMatchObject([{ workspaceId: 'ws_1', requestId: 'r-1' }])
    expect(refused.first.map(({ list, index }) => [list, index])).toEqual([
      ['refusals', 0],
      ['refusals', 1],
    ])
  })
})

describe('each bound of an entry is exact', () => {
  const AHEAD_MS = 10 * 60_000
  const OLDEST_MS = 13 * DAY_MS
  const refusal = {
    ...{ at: NOW_MS, keyId: 'key_a', route: 'files', code: 'not_found', reason: 'other_workspace' },
    ...{ requestId: 'r-1', address: '192.0.2.0/24' },
  }
  const omitted = { workspaceId: 'ws_1', count: 1 }
  const limit = {
    ...{ keyId: 'key_a', plan: 'free', policy: 'quota', windowSeconds: null },
    ...{ requests: 10, used: 9, endsAt: NOW_MS },
  }
  const check = (list: 'counts' | 'refusals' | 'omittedRefusals' | 'limits', entry: unknown) =>
    checkReport({ [list]: [entry] }, known, NOW_MS).refused.first.map(({ error }) => error)
  const LIMIT = 'not a limit in the documented form'
  const [COUNT, REFUSAL, OMITTED] = [
    'not a count in the documented form',
    'not a refusal in the documented form',
    'needs workspaceId and a count from 1',
  ]
  const oldestMinute = MINUTE - 13 * 1440

  test.each<[object, string | null]>([
    [{ count: 1 }, null],
    [{ count: 1_000_000_000 }, null],
    [{ count: 1_000_000_001 }, 'count must be a whole number from 1 to 1000000000'],
    [{ count: undefined }, 'count must be a whole number from 1 to 1000000000'],
    [{ minute: MINUTE + 10 }, null],
    [{ minute: MINUTE + 11 }, 'is in the future'],
    [{ minute: oldestMinute }, null],
    [{ minute: oldestMinute - 1 }, 'is more than 13 days old'],
    [{ minute: -1 }, COUNT],
    [{ minute: 0 }, 'is more than 13 days old'],
    [{ minute: 1e9 }, 'is in the future'],
    [{ minute: 1e9 + 1 }, COUNT],
    [{ minute: MINUTE + 0.5 }, COUNT],
    [{ code: 'c'.repeat(64) }, null],
    [{ code: 'c'.repeat(65) }, COUNT],
    [{ code: '' }, COUNT],
    [{ code: 'not ok' }, COUNT],
    [{ code: 'OK' }, COUNT],
    [{ keyId: 'k'.repeat(128) }, 'unknown key'],
    [{ keyId: 'k'.repeat(129) }, COUNT],
    [{ keyId: undefined }, 'needs either keyId or workspaceId'],
    [{ keyId: undefined, workspaceId: 'ws_1' }, null],
    [{ keyId: undefined, workspaceId: 'w'.repeat(128) }, 'unknown workspace'],
    [{ keyId: undefined, workspaceId: 'w'.repeat(129) }, COUNT],
  ])('of a count: %j', (change, error) => {
    expect(check('counts', { ...valid, ...change })).toEqual(error === null ? [] : [error])
  })

  test.each<[object, string | null]>([
    [{ at: NOW_MS + AHEAD_MS }, null],
    [{ at: NOW_MS + AHEAD_MS + 1 }, 'is in the future'],
    [{ at: NOW_MS - OLDEST_MS }, null],
    [{ at: NOW_MS - OLDEST_MS - 1 }, 'is more than 13 days old'],
    [{ at: -1 }, REFUSAL],
    [{ at: 0 }, 'is more than 13 days old'],
    [{ at: 1e14 }, 'is in the future'],
    [{ at: 1e14 + 1 }, REFUSAL],
    [{ keyId: 'key_x' }, 'unknown key'],
    [{ keyId: undefined }, REFUSAL],
    [{ route: 'Files' }, REFUSAL],
    [{ code: 'not found' }, REFUSAL],
    [{ reason: 'r'.repeat(64) }, null],
    [{ reason: 'r'.repeat(65) }, REFUSAL],
    [{ reason: undefined }, REFUSAL],
    [{ requestId: 'Az09._-'.padEnd(128, 'x') }, null],
    [{ requestId: 'r'.repeat(129) }, REFUSAL],
    [{ requestId: '' }, REFUSAL],
    [{ requestId: ' r' }, REFUSAL],
    [{ requestId: 'r ' }, REFUSAL],
    [{ address: '' }, null],
    [{ address: '2001:DB8::/48' }, null],
    [{ address: '0'.repeat(50) }, null],
    [{ address: '0'.repeat(51) }, REFUSAL],
    [{ address: ' 1' }, REFUSAL],
    [{ address: '1 ' }, REFUSAL],
  ])('of a refusal: %j', (change, error) => {
    expect(check('refusals', { ...refusal, ...change })).toEqual(error === null ? [] : [error])
  })

  test.each<[object, string | null]>([
    [{}, null],
    [{ plan: null, windowSeconds: 60 }, null],
    [{ keyId: undefined, workspaceId: 'ws_1' }, null],
    [{ keyId: undefined }, 'needs either keyId or workspaceId'],
    [{ workspaceId: 'ws_1' }, 'needs either keyId or workspaceId'],
    [{ keyId: 'key_x' }, 'unknown key'],
    [{ keyId: undefined, workspaceId: 'ws_2' }, 'unknown workspace'],
    [{ plan: undefined }, LIMIT],
    [{ plan: 'no plan' }, LIMIT],
    [{ policy: '' }, LIMIT],
    [{ windowSeconds: 0 }, LIMIT],
    [{ windowSeconds: 86_401 }, LIMIT],
    [{ requests: 0 }, LIMIT],
    [{ requests: 1_000_000_001 }, LIMIT],
    [{ used: 0.5 }, LIMIT],
    [{ endsAt: NOW_MS + 32 * DAY_MS }, null],
    [{ endsAt: NOW_MS + 32 * DAY_MS + 1 }, 'ends too late'],
    [{ endsAt: 0 }, null],
  ])('of a limit: %j', (change, error) => {
    expect(check('limits', { ...limit, ...change })).toEqual(error === null ? [] : [error])
  })

  test('a limit is never more than used up', () => {
    const { limits } = checkReport({ limits: [{ ...limit, used: 12 }] }, known, NOW_MS)
    expect(limits).toMatchObject([{ workspaceId: 'ws_1', keyId: 'key_a', used: 10 }])
  })

  test.each<[unknown, string | null]>([
    [omitted, null],
    [{ ...omitted, count: 0 }, OMITTED],
    [{ ...omitted, count: 1.5 }, OMITTED],
    [{ count: 1 }, OMITTED],
    [{ ...omitted, workspaceId: 'ws_2' }, 'unknown workspace'],
    [{ ...omitted, workspaceId: 'w'.repeat(129) }, OMITTED],
    [null, OMITTED],
  ])('of a workspace whose refusals were left out: %j', (entry, error) => {
    expect(check('omittedRefusals', entry)).toEqual(error === null ? [] : [error])
  })

  test('an id that is no workspace id is unknown, also if the database finds it', () => {
    const anything = { findWorkspace: () => null, hasWorkspace: () => true }
    const { refused } = checkReport({ omittedRefusals: [{ workspaceId: 'a b', count: 1 }] }, anything, NOW_MS)
    expect(refused.first).toEqual([{ list: 'omittedRefusals', index: 0, error: 'unknown workspace' }])
  })

  test('a refused count tells how many requests it stood for, if it says so', () => {
    const requestsOf = (entry: unknown) => checkReport({ counts: [entry] }, known, NOW_MS).refused.requests
    const unknown = { ...valid, keyId: 'key_x' }
    const entries = [1, 1e9, 1e9 + 1, 0, 1.5, '3'].map(given => ({ ...unknown, count: given }))
    expect(entries.map(requestsOf)).toEqual([1, 1e9, 0, 0, 0, 0])
    expect([null, 'x', 3, {}].map(requestsOf)).toEqual([0, 0, 0, 0])
  })

  test('a refusal keeps all that the gateway says, at the time of a clock that is not ahead', () => {
    const { refusals, omitted: gaps } = checkReport(
      { refusals: [{ ...refusal, at: NOW_MS + 1 }], omittedRefusals: [omitted] },
      known,
      NOW_MS,
    )
    const { at: _, ...rest } = refusal
    expect(refusals).toEqual([{ ...rest, atMs: NOW_MS, workspaceId: 'ws_1' }])
    expect(gaps).toEqual(['ws_1'])
  })
})

test('what a clock that is a little ahead counts is counted now', () => {
  const { counts } = checkReport({ counts: [{ ...valid, minute: MINUTE + 9 }] }, known, NOW_MS)
  expect(counts).toMatchObject([{ minute: MINUTE }])
})

test('reports of many gateways become one row for each key, hour, route and code, and one for the workspace', () => {
  const { hours, days } = foldReports(
    Array.from({ length: 100 }, (_, gateway) =>
      report(`g${gateway}`, 1, [count(2), count(1, { keyId: null })]),
    ),
    NOW_MS,
  )
  const row = { workspace_id: 'ws_1', route: 'files', code: 'ok' }
  expect(hours).toEqual([
    { ...row, key_id: '', bucket: Math.floor(NOW_MS / 3_600_000), count: 300, count_00: 300 },
    { ...row, key_id: 'key_a', bucket: Math.floor(NOW_MS / 3_600_000), count: 200, count_00: 200 },
  ])
  expect(days.map(({ bucket }) => bucket)).toEqual([Math.floor(NOW_MS / DAY_MS), Math.floor(NOW_MS / DAY_MS)])
})

test('workspaces of which gateways left refusals out are in one order, so that two consoles cannot deadlock', () => {
  const reports = ['ws_2', 'ws_3', 'ws_1', 'ws_2'].map(workspace =>
    report('g', 1, [], { omitted: [workspace] }),
  )
  expect(foldReports(reports, NOW_MS).omitted).toEqual(['ws_1', 'ws_2', 'ws_3'])
})

test('of many refusals of one workspace the last 200 are stored', () => {
  const names = {
    workspaceId: 'ws_1',
    keyId: 'key_a',
    route: 'files',
    code: 'c',
    reason: 'r',
    requestId: 'q',
  }
  const refusals = Array.from({ length: REFUSALS_KEPT + 1 }, (_, index) => {
    return { ...names, address: '', atMs: NOW_MS + index }
  })
  const folded = foldReports([report('g', 1, [], { refusals })], NOW_MS)
  expect(folded.refusals).toHaveLength(REFUSALS_KEPT)
  expect(folded.refusals.some(({ atMs }) => atMs === NOW_MS)).toBe(false)
})

describe('partitions', () => {
  test.each([
    ['postgres', 2],
    ['sqlite', 0],
  ] as const)('divide the counts by time in PostgreSQL alone: %s', (dialect, divided) => {
    const text = sql`text`
    const database = new Kysely<Tables>({
      dialect: {
        createAdapter: () => new PostgresAdapter(),
        createDriver: () => new DummyDriver(),
        createIntrospector: own => new PostgresIntrospector(own),
        createQueryCompiler: () => new PostgresQueryCompiler(),
      },
    })
    const statements = usageTables(dialect, text).map(statement => statement.compile(database).sql)
    expect(statements.filter(statement => statement.endsWith('partition by range (bucket)'))).toHaveLength(
      divided,
    )
  })

  test('cover every count that is accepted, and the next days, without gap or overlap', () => {
    for (const table of ['usage_hours', 'usage_days'] as const) {
      const unit = table === 'usage_hours' ? 3_600_000 : DAY_MS
      const own = partitionsFor(NOW_MS).filter(partition => partition.table === table)
      for (const [index, { until }] of own.slice(0, -1).entries()) expect(own[index + 1]?.from).toBe(until)
      expect((own[0]?.from ?? Infinity) * unit).toBeLessThanOrEqual(NOW_MS - 13 * DAY_MS)
      expect((own.at(-1)?.until ?? 0) * unit).toBeGreaterThan(NOW_MS + 2 * DAY_MS)
    }
  })

  test('cover what a copy brings, however old: a day of hours each, a month of days each', () => {
    const hour = (text: string) => Date.parse(text) / 3_600_000
    const seen = (...covered: Parameters<typeof partitionsCovering>) =>
      partitionsCovering(...covered).map(({ name, table, from, until }) => [name, table, from, until])
    const [first, next] = [hour('2024-02-28T00:00Z'), hour('2024-02-29T00:00Z')]
    const day = ['usage_hours_20240228', 'usage_hours', first, next]
    expect(seen('usage_hours', first + 5, first + 5)).toEqual([day])
    expect(seen('usage_hours', first + 23, next)).toEqual([
      day,
      ['usage_hours_20240229', 'usage_hours', next, next + 24],
    ])
    const [january, february, march] = ['2024-01-01', '2024-02-01', '2024-03-01'].map(
      text => Date.parse(text) / DAY_MS,
    ) as [number, number, number]
    expect(seen('usage_days', february - 1, february)).toEqual([
      ['usage_days_202401', 'usage_days', january, february],
      ['usage_days_202402', 'usage_days', february, march],
    ])
    expect(seen('usage_days', 2, 1)).toEqual([])
  })

  test('are past only once all of their time is past its retention', () => {
    const names = [
      'usage_hours_20261106',
      'usage_hours_20261105',
      'usage_days_202510',
      'usage_days_202509',
      'keys',
      // Copies of an operator.
      'old_usage_hours_20200101',
      'usage_days_202001_old',
    ]
    expect(pastPartitions(names, Date.parse('2026-11-20T09:00:00Z'))).toEqual([
      'usage_hours_20261105',
      'usage_days_202509',
    ])
  })
})

describe('the range of a question', () => {
  const rangeOf = (text: Parameters<typeof parseUsageRange>[0]) => parseUsageRange(text, NOW_MS + 1)
  test('is the last 24 hours or 30 days, unless it says otherwise', () => {
    const hour = Math.floor(NOW_MS / 3_600_000)
    expect(rangeOf({})).toEqual({ ok: true, range: { step: 'hour', from: hour - 23, until: hour + 1 } })
    const day = Math.floor(NOW_MS / DAY_MS)
    expect(rangeOf({ step: 'day' })).toEqual({
      ok: true,
      range: { step: 'day', from: day - 29, until: day + 1 },
    })
  })

  test('ends now, also where it was to end later', () => {
    const asked = rangeOf({ to: '2030-01-01T00:00:00Z', from: '2026-11-19T00:00:00Z', step: 'day' })
    expect(asked).toMatchObject({ range: { until: Math.floor(NOW_MS / DAY_MS) + 1 } })
  })

  const INSTANT = 'an instant such as 2027-02-18T09:00:00Z'
  const EMPTY = 'in the past, and before to'
  const [HOURS, DAYS] = ['within the last 14 days, for step=hour', 'within the last 400 days']
  test.each([
    [{ from: 'yesterday' }, 'from', INSTANT],
    [{ to: '2026-11-31T00:00:00Z' }, 'to', INSTANT],
    [{ from: '2026-11-20T10:00:00Z' }, 'from', EMPTY],
    [{ from: '2026-11-20T08:00:00Z', to: '2026-11-20T08:00:00Z' }, 'from', EMPTY],
    [{ from: '2026-11-05T23:59:59Z' }, 'from', HOURS],
    [{ from: '2025-10-15T23:59:59Z', step: 'day' as const }, 'from', DAYS],
  ])('is refused where nothing is kept: %j', (text, field, expected) => {
    expect(rangeOf(text)).toEqual({ ok: false, field, expected })
  })

  test('reaches back as far as counts are kept', () => {
    const hour = (text: string) => Date.parse(text) / 3_600_000
    expect(rangeOf({ from: '2026-11-06T00:00:00Z' })).toMatchObject({
      range: { from: hour('2026-11-06T00:00Z') },
    })
    const day = { from: '2025-10-16T00:00:00Z', to: '2025-10-16T00:00:01Z', step: 'day' as const }
    const first = hour('2025-10-16T00:00Z') / 24
    expect(rangeOf(day)).toEqual({ ok: true, range: { step: 'day', from: first, until: first + 1 } })
  })
})
