import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { countUnused } from '../../../src/console/keys/search/count-keys.ts'
import type { AuditedDatabase } from '../../../src/console/platform/audit/mac.ts'
import { toKeyRow } from '../../../src/console/platform/database/key-row.ts'
import type { RefusalFilter, RefusalQuery } from '../../../src/console/usage/read-refusals.ts'
import { createUsageQueries, lastPoints } from '../../../src/console/usage/read-usage.ts'
import type { CheckedReport, Count, Refusal } from '../../../src/console/usage/reports/check-report.ts'
import { makePartitions, purgeUsage } from '../../../src/console/usage/reports/rows.ts'
import { ReportGatherer, storeReports } from '../../../src/console/usage/reports/store-reports.ts'
import { systemTimers } from '../../../src/domain/clock.ts'
import type { KeyRecord } from '../../../src/domain/key/key-record.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { openDatabase } from '../../support/open-database.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { NOW_MS, someKey } from '../../support/stored-keys.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

/**
 * What every database must do with counts and refusals.
 * @param freshUrl the address of a database without rows
 * @param consoles how many share it
 */
export function describeUsage(name: string, freshUrl: () => Promise<string>, consoles: number): void {
  describe(`counts and refusals in ${name}`, () => {
    let database: AuditedDatabase
    let nowMs: number
    let queries: ReturnType<typeof createUsageQueries>
    const key = { workspaceId: 'ws_1', id: 'key_a' }
    const store = (...reports: readonly CheckedReport[]) => storeReports(database, reports, nowMs)
    const lastDay = () => lastPoints('hour', 24, nowMs)
    const requestsOf = async (id = key.id) => {
      const { points } = await queries.readKey({ ...key, id }, lastDay())
      return points.reduce((sum, { requests }) => sum + requests, 0)
    }

    beforeEach(async () => {
      nowMs = NOW_MS
      database = await openDatabase(await freshUrl())
      queries = createUsageQueries(database, { wallMs: () => nowMs, monotonicMs: () => nowMs })
      await makePartitions(database, nowMs)
    })
    afterEach(() => database.close())

    test('adds up what gateways report, by hour and by day', async () => {
      await store(
        report('g1', 1, [count(3), count(2, { code: 'scope_missing' })]),
        report('g2', 1, [count(4), count(5, { minute: minuteOf(nowMs - HOUR_MS), route: 'workspace' })]),
      )
      await store(report('g1', 2, [count(1)]))
      const [before, present] = (await queries.readKey(key, lastPoints('hour', 2, nowMs))).points
      expect(before).toMatchObject({ atMs: NOW_MS - HOUR_MS, requests: 5, byRoute: { workspace: 5 } })
      expect(present).toEqual({
        atMs: NOW_MS,
        requests: 10,
        byCode: { ok: 8, scope_missing: 2 },
        byRoute: { files: 10 },
        servedByRoute: { files: 8 },
      })
      const [today] = (await queries.readKey(key, lastPoints('day', 1, nowMs))).points
      expect(today).toMatchObject({ requests: 15, byCode: { ok: 13, scope_missing: 2 } })
    })

    test('counts the last hour by five minutes, also over the turn of an hour and from several reports', async () => {
      nowMs = NOW_MS + 7 * MINUTE_MS
      const at = (minutesAgo: number) => ({ minute: minuteOf(nowMs - minutesAgo * MINUTE_MS) })
      await store(
        report('g1', 1, [count(3, at(0)), count(2, { ...at(0), code: 'scope_missing' }), count(4, at(1))]),
        report('g2', 1, [count(5, at(7)), count(6, at(8)), count(7, at(50))]),
      )
      await store(report('g1', 2, [count(10, at(0)), count(1, at(70))]))
      const lastHour = lastPoints('5 minutes', 12, nowMs)
      const { points, late } = await queries.readKey(key, lastHour)
      expect(points.map(({ requests }) => requests)).toEqual([0, 7, 0, 0, 0, 0, 0, 0, 0, 6, 5, 19])
      expect(points.at(-1)).toEqual({
        atMs: NOW_MS + 5 * MINUTE_MS,
        requests: 19,
        byCode: { ok: 17, scope_missing: 2 },
        byRoute: { files: 19 },
        servedByRoute: { files: 17 },
      })
      expect(late).toBe(0)
      expect((await queries.readWorkspace('ws_1', lastHour)).points).toEqual(points)
      const [before, present] = (await queries.readKey(key, lastPoints('hour', 2, nowMs))).points
      expect([before?.requests, present?.requests]).toEqual([13, 24])
    })

    test('says of what gateways report late, by the hour, that it has no place within the hour', async () => {
      nowMs = NOW_MS + 40 * MINUTE_MS
      const hour = { minute: minuteOf(NOW_MS) }
      await store(report('g1', 1, [count(9, hour), count(2, { minute: minuteOf(nowMs) })]))
      const { points, late } = await queries.readKey(key, lastPoints('5 minutes', 12, nowMs))
      expect([points.reduce((sum, { requests }) => sum + requests, 0), late]).toEqual([2, 9])
      expect(await requestsOf()).toBe(11)
    })

    test('counts a repeated report once, and one that is older than the last not at all', async () => {
      const second = report('g1', 2, [count(3)])
      expect(await store(second)).toEqual(new Set(['g1']))
      expect(await store(second)).toEqual(new Set())
      expect(await store(report('g1', 1, [count(100)]), report('g2', 1, [count(1)]))).toEqual(new Set(['g2']))
      expect(await requestsOf()).toBe(4)
    })

    test('stores a report entirely or not at all', async () => {
      const broken = report('g1', 1, [count(3), count(1, { minute: minuteOf(nowMs) })], {
        refusals: [refusal({ atMs: Number.NaN })],
      })
      await expect(store(broken)).rejects.toThrow()
      expect(await requestsOf()).toBe(0)
      await store(report('g1', 1, [count(3)]))
      expect(await requestsOf()).toBe(3)
    })

    test('counts in the workspace what a gateway had no room to count by key', async () => {
      await store(report('g1', 1, [count(3), count(4, { keyId: null }), count(2, { keyId: 'key_b' })]))
      const [total] = (await queries.readWorkspace('ws_1', lastPoints('day', 1, nowMs))).points
      expect(total?.requests).toBe(9)
    })

    test('lists the busiest keys among the 500 that were used last', async () => {
      const ids = ['key_a', 'key_b', ...Array.from({ length: 502 }, (_, index) => `key_${index}`)]
      const rows = ids.map(id => toKeyRow(someKey({ id }), nowMs))
      await database.writer.insertInto('keys').values(rows).execute()
      const number = sql<number>`cast(substr(key_id, 5) as integer)`
      await database.writer
        .updateTable('key_use')
        .set({ last_used_at_ms: number })
        .where('key_id', 'not in', ['key_a', 'key_b'])
        .execute()
      await database.writer
        .updateTable('key_use')
        .set({ last_used_at_ms: nowMs })
        .where('key_id', 'in', ['key_a', 'key_b'])
        .execute()
      const b = { keyId: 'key_b' }
      await store(
        report('g1', 1, [
          count(3),
          count(2, b),
          count(7, { ...b, code: 'rate_limited' }),
          count(9, { keyId: 'key_3' }),
        ]),
      )
      await store(
        report('g1', 2, [count(8, { workspaceId: 'ws_2', keyId: 'key_c' }), count(1, { keyId: 'key_4' })]),
      )
      const busiest = await queries.busiestKeys('ws_1', lastDay(), 10)
      expect(await queries.busiestKeys('ws_1', lastDay(), 1)).toHaveLength(1)
      expect(busiest).toEqual([
        { name: 'key_b', requests: 9, served: 2 },
        { name: 'key_a', requests: 3, served: 3 },
        { name: 'key_4', requests: 1, served: 1 },
      ])
    })

    test('counts active keys that were never used, or not for 30 or 90 days', async () => {
      const keys: readonly (readonly [
        id: string,
        usedDaysAgo: number | null,
        record?: Partial<KeyRecord>,
      ])[] = [
        ...[
          ['key_never', null] as const,
          ['key_new', null, { createdAtMs: nowMs - 29 * DAY_MS }] as const,
          ['key_young', null, { createdAtMs: nowMs - 89 * DAY_MS }] as const,
          ['key_29', 29] as const,
          ['key_31', 31] as const,
          ['key_91', 91] as const,
        ],
        ...[
          ['key_revoked', null, { revokedAtMs: nowMs }] as const,
          ['key_other', null, { workspaceId: 'ws_2' }] as const,
        ],
        ...[
          ['key_expired', 99, { expiresAtMs: nowMs }] as const,
          ['key_old', 99, { replacedBy: 'key_29' }] as const,
        ],
        ['key_suspended', 99, { suspendedAtMs: nowMs }],
      ]
      const createdAtMs = nowMs - 91 * DAY_MS
      const rows = keys.map(([id, , record]) => toKeyRow(someKey({ id, createdAtMs, ...record }), nowMs))
      await database.writer.insertInto('keys').values(rows).execute()
      for (const [id, days] of keys) {
        if (days === null) continue
        const used = { last_used_at_ms: nowMs - days * DAY_MS }
        await database.writer.updateTable('key_use').set(used).where('key_id', '=', id).execute()
      }
      const counts = { never: 3, '30d': 4, '90d': 2, isPartial: false }
      expect(await countUnused(database.reader, 'ws_1', nowMs)).toEqual(counts)
      expect(await countUnused(database.reader, 'ws_3', nowMs)).toMatchObject({ never: 0, isPartial: false })
    })

    test('lists workspaces by use', async () => {
      const counts = [
        count(1),
        count(7, { code: 'rate_limited' }),
        count(9, { workspaceId: 'ws_2', keyId: 'key_c', code: 'not_found' }),
      ]
      await store(report('g1', 1, counts))
      expect(await queries.busiestWorkspaces(lastDay(), 10)).toEqual([
        { name: 'ws_2', requests: 9, served: 0 },
        { name: 'ws_1', requests: 8, served: 1 },
      ])
    })

    test('keeps the last 200 refusals of each workspace, for 7 days', async () => {
      for (let round = 0; round < 5; round++) {
        const refusals = Array.from({ length: 50 }, (_, index) =>
          refusal({ atMs: nowMs + round * 50 + index, requestId: `r${round * 50 + index}` }),
        )
        await store(report('g1', round + 1, [], { refusals }))
      }
      await store(report('g1', 6, [], { refusals: [refusal({ workspaceId: 'ws_2' })] }))
      const first = await queries.searchRefusals({ ...of('ws_1'), limit: 150 })
      const rest = await queries.searchRefusals({ ...of('ws_1'), limit: 150, after: first.nextAfter })
      const seen = [...first.refusals, ...rest.refusals].map(({ requestId }) => requestId)
      expect(seen).toEqual(Array.from({ length: 200 }, (_, index) => `r${249 - index}`))
      expect([first.sampled, rest.sampled, rest.nextAfter]).toEqual([false, false, null])
      nowMs += 7 * DAY_MS + 1000
      const old = await queries.searchRefusals(of('ws_2'))
      expect(old.refusals).toEqual([])
      await purgeUsage(database, nowMs)
      expect(await rowsIn('refusals')).toBe(0)
    })

    test('says that a gateway left refusals out, as long as those of that time are shown', async () => {
      const refusals = [refusal(), refusal({ workspaceId: 'ws_2' })]
      await store(report('g1', 1, [], { refusals, omitted: ['ws_1'] }))
      const sampled = async (workspaceId: string) => (await queries.searchRefusals(of(workspaceId))).sampled
      expect([await sampled('ws_1'), await sampled('ws_2')]).toEqual([true, false])
      nowMs += 1
      const later = Array.from({ length: 200 }, () => refusal({ atMs: nowMs }))
      await store(report('g1', 2, [], { refusals: later }))
      expect(await sampled('ws_1')).toBe(false)
    })

    test('keeps hours for 14 days, and days for 400', async () => {
      await store(report('g1', 1, [count(3)]))
      nowMs += 14 * DAY_MS
      await makePartitions(database, nowMs)
      await purgeUsage(database, nowMs)
      expect([await rowsIn('usage_hours'), await rowsIn('usage_days')]).toEqual([2, 2])
      nowMs += DAY_MS
      await purgeUsage(database, nowMs)
      expect([await rowsIn('usage_hours'), await rowsIn('usage_days')]).toEqual([0, 2])
      nowMs += 385 * DAY_MS
      await purgeUsage(database, nowMs)
      expect(await rowsIn('usage_days')).toBe(2)
      // PostgreSQL drops whole months.
      nowMs += 31 * DAY_MS
      await purgeUsage(database, nowMs)
      expect([await rowsIn('usage_days'), await rowsIn('usage_gateways')]).toEqual([0, 0])
    })

    test('removes what is past its time however much it is, and nothing else', async () => {
      const many = Array.from({ length: 200 }, (_, index) => `ws_${index}`)
      const of = (when: number, workspaces: readonly string[]) =>
        workspaces.map(workspaceId => refusal({ workspaceId, atMs: when }))
      // Of each workspace 200 are kept.
      const old = many.flatMap(workspaceId =>
        of(
          nowMs,
          Array.from({ length: 6 }, () => workspaceId),
        ),
      )
      const omitted = ['ws_1']
      await store(report('g1', 1, [count(1)], { refusals: old, omitted }))
      nowMs += 7 * DAY_MS
      await purgeUsage(database, nowMs)
      expect([await rowsIn('refusals'), await rowsIn('refusal_gaps')]).toEqual([1_200, 1])
      nowMs += 1
      await makePartitions(database, nowMs)
      await store(report('g2', 1, [count(2, { minute: minuteOf(nowMs) })], { refusals: of(nowMs, ['ws_1']) }))
      await purgeUsage(database, nowMs)
      expect([await rowsIn('refusals'), await rowsIn('refusal_gaps')]).toEqual([1, 0])
      expect([await rowsIn('usage_hours'), await rowsIn('usage_days')]).toEqual([4, 4])
    })

    test('a search of the refusals of all workspaces finds each once, newest first, also what is rare among many', async () => {
      const named = (requestId: string, more: Partial<Refusal>) => refusal({ requestId, ...more })
      const rare = [named('rare', { code: 'scope_missing', atMs: NOW_MS - 5_000 })]
      // Of one moment: the position in a page is not the time alone.
      const many = Array.from({ length: 120 }, (_, index) =>
        named(`r${index}`, { workspaceId: `ws_${index % 40}` }),
      )
      await store(report('g1', 1, [], { refusals: [...many, ...rare] }))
      const ids: string[] = []
      let after: Awaited<ReturnType<typeof queries.searchRefusals>>['nextAfter'] = null
      do {
        const page = await queries.searchRefusals({ ...of(null), limit: 50, after })
        ids.push(...page.refusals.map(({ requestId }) => requestId))
        after = page.nextAfter
      } while (after !== null)
      expect(ids.toSorted()).toEqual([...many, ...rare].map(({ requestId }) => requestId).toSorted())
      expect(ids.at(-1)).toBe('rare')
      const found = await queries.searchRefusals({ ...of(null), filter: { code: 'scope_missing' } })
      expect([found.refusals.map(({ requestId }) => requestId), found.nextAfter]).toEqual([['rare'], null])
      const byId = await queries.searchRefusals({ ...of(null), filter: { requestId: 'r7' } })
      expect(byId.refusals).toMatchObject([{ workspaceId: 'ws_7', requestId: 'r7' }])
      nowMs += 7 * DAY_MS + 1
      expect((await queries.searchRefusals(of(null))).refusals).toEqual([])
    })

    test('a search of the refusals of all workspaces examines 5,000 for a page, and says where it goes on', async () => {
      const workspaces = Array.from({ length: 30 }, (_, index) => `ws_${index}`)
      const refusals = workspaces.flatMap((workspaceId, place) =>
        Array.from({ length: 200 }, () => refusal({ workspaceId, atMs: NOW_MS - place })),
      )
      await store(
        report('g1', 1, [], {
          refusals: [...refusals, refusal({ workspaceId: 'ws_rare', code: 'rare', atMs: NOW_MS - 9_000 })],
        }),
      )
      const search = { ...of(null), filter: { code: 'rare' } }
      const first = await queries.searchRefusals(search)
      expect(first.refusals).toEqual([])
      const second = await queries.searchRefusals({ ...search, after: first.nextAfter })
      expect([second.refusals.length, second.nextAfter]).toEqual([1, null])
      const parts: number[] = []
      for await (const part of queries.readRefusals(search)) parts.push(part.length)
      expect([parts.length, parts.reduce((sum, length) => sum + length)]).toEqual([13, 1])
    })

    test('refusals are selected by key and time, the first instant included and the last one not, in one workspace or in all', async () => {
      const at = (seconds: number, more: Partial<Refusal> = {}) =>
        refusal({ atMs: NOW_MS + seconds * 1000, requestId: `r${seconds}`, ...more })
      const other = { keyId: 'key_b', workspaceId: 'ws_2' }
      await store(report('g1', 1, [], { refusals: [at(0), at(1), at(2), at(3, other), at(4)] }))
      const ids = async (workspaceId: string | null, filter: RefusalFilter) => {
        const { refusals } = await queries.searchRefusals({ ...of(workspaceId), filter })
        const all: Refusal[] = []
        for await (const part of queries.readRefusals({ workspaceId, filter })) all.push(...part)
        expect(all).toEqual(refusals)
        return refusals.map(({ requestId }) => requestId)
      }
      const [fromMs, toMs] = [NOW_MS + 1000, NOW_MS + 4000]
      expect(await ids('ws_1', { fromMs })).toEqual(['r4', 'r2', 'r1'])
      expect(await ids('ws_1', { fromMs, toMs })).toEqual(['r2', 'r1'])
      expect(await ids(null, { fromMs, toMs })).toEqual(['r3', 'r2', 'r1'])
      expect(await ids(null, { keyId: 'key_b' })).toEqual(['r3'])
      expect(await ids('ws_1', { keyId: 'key_b' })).toEqual([])
      expect(await ids('ws_1', { keyId: 'key_a', toMs, code: 'not_found' })).toEqual(['r2', 'r1', 'r0'])
      expect(await ids(null, { toMs: NOW_MS })).toEqual([])
    })

    test('counts are complete until the oldest last report of the gateways that are running', async () => {
      const nameOf = (pod: string) => `${pod}:id-${pod}`
      const present = async (...pods: string[]) => {
        const rows = pods.map(pod => ({ id: `id-${pod}`, name: pod, region: 'default' }))
        await database.writer
          .insertInto('gateways')
          .values(rows.map(row => ({ ...row, seen_at_ms: nowMs, disconnected_at_ms: nowMs })))
          .onConflict(conflict => conflict.column('id').doUpdateSet({ seen_at_ms: nowMs }))
          .execute()
      }
      // Another sender, which reports its presence under no such name.
      await store(report('collector', 1, []))
      nowMs += 1_000
      await present('pod-1', 'pod-2', 'pod-3')
      await store(report(nameOf('pod-1'), 1, []))
      nowMs += 1_000
      await store(report(nameOf('pod-2'), 1, [count(1)]))
      expect(await queries.asOfMs()).toBe(NOW_MS + 1_000)
      nowMs += 1_000
      await store(report(nameOf('pod-1'), 2, []))
      expect(await queries.asOfMs()).toBe(NOW_MS + 2_000)
      // pod-2 was killed: a minute later it is not waited for.
      nowMs += 57_000
      await present('pod-1')
      await store(report(nameOf('pod-1'), 3, []))
      expect(await queries.asOfMs()).toBe(NOW_MS + 2_000)
      nowMs += 1_001
      expect(await queries.asOfMs()).toBe(NOW_MS + 60_000)
      // A gateway that stops says so, after its last report.
      await database.writer.deleteFrom('gateways').execute()
      expect(await queries.asOfMs()).toBe(NOW_MS + 60_000)
    })

    test('an empty report changes nothing but when its gateway last reported', async () => {
      await store(report('g1', 1, [count(1)]))
      const before = await Promise.all(
        (['usage_hours', 'usage_days', 'refusals', 'refusal_gaps'] as const).map(rowsIn),
      )
      nowMs += 30_000
      expect(await store(report('g1', 2, []), report('g2', 1, []))).toEqual(new Set(['g1', 'g2']))
      expect(
        await Promise.all((['usage_hours', 'usage_days', 'refusals', 'refusal_gaps'] as const).map(rowsIn)),
      ).toEqual(before)
      expect([await rowsIn('usage_gateways'), await requestsOf()]).toEqual([2, 1])
    })

    test('a gateway that is silent for two days is forgotten', async () => {
      await store(report('g1', 1, []))
      expect(await queries.asOfMs()).toBe(nowMs)
      nowMs += DAY_MS
      await purgeUsage(database, nowMs)
      expect(await queries.asOfMs()).toBe(NOW_MS)
      nowMs += DAY_MS + 1
      await purgeUsage(database, nowMs)
      expect(await queries.asOfMs()).toBeNull()
    })

    test(`counts each report once, with ${consoles} console(s) that receive it several times, and when one restarts`, async () => {
      const random = generator()
      const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
      const url = await freshUrl()
      const open = async () => {
        const own = await openDatabase(url)
        const parts = { database: own, uses: { record: async () => {} }, clock, timers: systemTimers }
        const gatherer = new ReportGatherer({ ...parts, logger: silentLogger, metrics: createMetrics() })
        return { own, store: (sent: CheckedReport) => gatherer.store({ ...sent, used: new Map() }) }
      }
      const opened = await Promise.all(Array.from({ length: consoles }, open))
      const gateway = async (gatewayName: string) => {
        for (let sequence = 1; sequence <= 6; sequence++) {
          const sent = report(gatewayName, sequence, [
            count(sequence),
            count(1, { keyId: `key_${gatewayName}` }),
          ])
          // A report whose acknowledgement was lost is repeated, at any console.
          const copies = 1 + Math.floor(random() * 3)
          await Promise.all(
            Array.from({ length: copies }, () => opened[Math.floor(random() * consoles)]?.store(sent)),
          )
        }
      }
      await Promise.all(Array.from({ length: 10 }, (_, index) => gateway(`g${index}`)))
      const restarted = await open()
      await restarted.store(report('g0', 6, [count(1000)]))
      const own = createUsageQueries(restarted.own, clock)
      const [point] = (await own.readWorkspace('ws_1', lastPoints('day', 1, nowMs))).points
      expect(point?.requests).toBe(10 * (1 + 2 + 3 + 4 + 5 + 6 + 6))
      const [ofKey] = (await own.readKey({ ...key, id: 'key_g3' }, lastPoints('hour', 1, nowMs))).points
      expect(ofKey?.requests).toBe(6)
      await Promise.all([...opened, restarted].map(console => console.own.close()))
    })

    async function rowsIn(
      table: 'usage_hours' | 'usage_days' | 'usage_gateways' | 'refusals' | 'refusal_gaps',
    ): Promise<number> {
      const { rows } = await sql<{ rows: number }>`
        select cast(count(*) as integer) as rows from ${sql.table(table)}`.execute(database.reader)
      return rows[0]?.rows ?? -1
    }
  })
}

export function report(
  gateway: string,
  sequence: number,
  counts: readonly Count[],
  more: Partial<Omit<CheckedReport, 'gateway' | 'sequence' | 'counts'>> = {},
): CheckedReport {
  const nothing = { refusals: [], omitted: [], limits: [] }
  return { gateway, region: 'default', sequence, counts, ...nothing, ...more }
}

export function count(requests: number, more: Partial<Count> = {}): Count {
  const place = { workspaceId: 'ws_1', keyId: 'key_a', route: 'files', code: 'ok' }
  return { ...place, minute: minuteOf(NOW_MS), count: requests, ...more }
}

/** All that are kept. @param workspaceId null: of all workspaces */
function of(workspaceId: string | null): RefusalQuery {
  return { filter: {}, workspaceId, limit: 200, after: null }
}

function refusal(more: Partial<Refusal> = {}): Refusal {
  const names = { workspaceId: 'ws_1', keyId: 'key_a', route: 'files', requestId: randomUUID() }
  return {
    ...names,
    atMs: NOW_MS,
    code: 'not_found',
    reason: 'other_workspace',
    address: '192.0.2.0/24',
    ...more,
  }
}

/** Mulberry32: the same numbers in each run. */
function generator(): () => number {
  let state = 1
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

function minuteOf(ms: number): number {
  return Math.floor(ms / MINUTE_MS)
}
