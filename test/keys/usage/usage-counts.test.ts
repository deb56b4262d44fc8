import { beforeEach, expect, test } from 'vitest'
import { UsageCounts } from '../../../src/keys/usage/usage-counts.ts'
import { createMetrics, type Metrics } from '../../../src/observability/metrics/metrics.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { metricValue } from '../../support/metric-value.ts'
import { usageRequest } from '../../support/usage-request.ts'

let clock: ManualClock
let metrics: Metrics
let counts: UsageCounts
beforeEach(() => {
  clock = new ManualClock()
  metrics = createMetrics()
  counts = create()
})

interface Settings {
  readonly countsRequests?: boolean
  readonly notesRefusals?: boolean
  readonly maxEntries?: number
}

function create(settings: Settings = {}): UsageCounts {
  return new UsageCounts({
    clock,
    metrics,
    countsRequests: true,
    notesRefusals: true,
    maxEntries: 1_000,
    ...settings,
  })
}

const thisMinute = () => Math.floor(clock.wallMs() / 60_000)

test('requests are counted by key, route, outcome and minute', () => {
  const minute = thisMinute()
  for (let index = 0; index < 3; index++) counts.record(usageRequest(), 200, false)
  counts.record(usageRequest({ route: 'workspace' }), 304, false)
  counts.record(usageRequest({ keyId: 'key_2' }), 200, false)
  clock.advance(60_000)
  counts.record(usageRequest(), 200, false)
  const ofKey1 = { keyId: 'key_1', workspaceId: 'ws_1', code: 'ok' }
  expect(counts.take()?.counts).toEqual([
    { ...ofKey1, route: 'files', minute: minute + 1, count: 1 },
    { ...ofKey1, route: 'workspace', minute, count: 1 },
    { ...ofKey1, route: 'files', minute, count: 3 },
    { ...ofKey1, keyId: 'key_2', route: 'files', minute, count: 1 },
  ])
  expect(counts.take()).toBeNull()
})

test('the last use of a key is the time of its latest authenticated request, to the millisecond', () => {
  counts.record(usageRequest({ reason: 'scope_missing' }), 403, false)
  counts.record(usageRequest({ keyId: 'key_2', reason: 'key_revoked' }), 401, false)
  const usedMs = clock.wallMs()
  clock.advance(1)
  counts.record(usageRequest({ reason: 'key_expired' }), 401, false)
  const report = counts.take()
  expect(report?.used).toEqual({ key_1: usedMs })
  // The rejected requests are counted like others.
  expect(report?.counts).toHaveLength(3)
})

test('a refusal holds the reason, the public code and the network of the client', () => {
  counts.record(usageRequest({ reason: 'other_workspace', clientAddress: '2001:db8:1:2::3' }), 404, false)
  expect(counts.take()?.refusals).toEqual([
    {
      at: clock.wallMs(),
      keyId: 'key_1',
      route: 'files',
      code: 'not_found',
      reason: 'other_workspace',
      requestId: 'request-1',
      address: '2001:db8:1::/48',
    },
  ])
})

test.each([
  [null, null],
  [null, 'ws_1'],
  ['key_1', null],
])('requests of unknown keys are neither counted nor noted: key %s, workspace %s', (keyId, workspaceId) => {
  counts.record(usageRequest({ keyId, workspaceId, reason: 'key_invalid' }), 401, false)
  expect(counts.take()).toBeNull()
})

test('with usage.enabled: false only the times of last use are reported', () => {
  counts = create({ countsRequests: false })
  counts.record(usageRequest({ reason: 'scope_missing' }), 403, false)
  counts.record(usageRequest({ keyId: 'key_2', reason: 'key_revoked' }), 401, false)
  expect(counts.take()).toEqual({ used: { key_1: clock.wallMs() }, counts: [], refusals: [] })
  counts.record(usageRequest({ keyId: 'key_2', reason: 'key_revoked' }), 401, false)
  expect([counts.entries, counts.take()]).toEqual([0, null])
})

test('with refusals.enabled: false refused requests are only counted', () => {
  counts = create({ notesRefusals: false })
  counts.record(usageRequest({ reason: 'scope_missing' }), 403, false)
  expect(counts.take()).toMatchObject({ counts: [{ code: 'scope_missing', count: 1 }], refusals: [] })
})

test('beyond the bound requests are counted by workspace, then lost, and both are said', async () => {
  counts = create({ maxEntries: 4 })
  for (let key = 0; key < 10; key++) {
    counts.record(usageRequest({ keyId: `key_${key}`, workspaceId: `ws_${key % 2}` }), 200, false)
  }
  expect(counts.take()?.counts).toMatchObject([
    { keyId: 'key_0', count: 1 },
    { keyId: 'key_1', count: 1 },
    { keyId: null, workspaceId: 'ws_0', count: 4 },
    { keyId: null, workspaceId: 'ws_1', count: 4 },
  ])
  expect(await metricValue(metrics.usageFolded)).toBe(8)
  for (let index = 0; index < 12_000; index++) {
    counts.record(usageRequest({ keyId: `key_${index}`, workspaceId: `ws_${index}` }), 200, false)
  }
  expect(counts.entries).toBe(4 + 10_000)
  const lost = 12_000 - 2 - 5_000
  expect(counts.take()?.lost).toBe(lost)
  expect(await metricValue(metrics.usageLost, { cause: 'memory' })).toBe(lost)
})

const refuse = (keyId = 'key_1', workspaceId = 'ws_1') =>
  counts.record(usageRequest({ keyId, workspaceId, reason: 'scope_missing' }), 403, false)

test('refusals that were left out are reported beside the counts, and once', () => {
  for (let index = 0; index < 50; index++) refuse()
  counts.take()
  refuse()
  expect(counts.take()).toMatchObject({
    counts: [{ keyId: 'key_1', count: 1 }],
    refusals: [],
    omittedRefusals: [{ workspaceId: 'ws_1', count: 1 }],
  })
  refuse('key_2', 'ws_2')
  expect(counts.take()).not.toHaveProperty('omittedRefusals')
})

test('a report that was dropped does not hide the counts of the next one, which says all that was lost', async () => {
  counts.record(usageRequest({ reason: 'scope_missing' }), 403, false)
  const dropped = counts.take()
  if (dropped === null) throw new Error('There is no report')
  counts.noteDropped({ ...dropped, lost: 2 })
  counts.record(usageRequest(), 200, false)
  expect(counts.take()).toMatchObject({ counts: [{ count: 1 }], lost: 1 + 2 })
  expect(await metricValue(metrics.usageLost, { cause: 'refused' })).toBe(1)
  expect(await metricValue(metrics.usageRefusalsOmitted)).toBe(1)
})

test('refusals need further reports', () => {
  for (let workspace = 0; workspace < 5; workspace++) {
    for (let index = 0; index < 50; index++) refuse(`key_${workspace}`, `ws_${workspace}`)
  }
  expect(counts.reports).toBe(1 + 2)
})

test('while reports fail, an hour of requests takes the entries of one minute', () => {
  counts.isLate = true
  const hour = thisMinute() - (thisMinute() % 60)
  for (let minute = 0; minute < 60; minute++) {
    counts.record(usageRequest(), 200, false)
    clock.advance(60_000)
  }
  expect(counts.take()?.counts).toMatchObject([{ minute: hour, count: 60 }])
})

test('of a key with more counts than fit, a report holds a part, and no count twice', () => {
  counts = create({ maxEntries: 50_000 })
  for (let route = 0; route < 12_000; route++) {
    counts.record(usageRequest({ route: `route-${route}` }), 200, false)
  }
  const usedMs = clock.wallMs()
  const reports = Array.from({ length: counts.reports }, () => counts.take())
  expect(counts.take()).toBeNull()
  for (const report of reports) expect(report?.counts.length).toBeLessThan(1_000)
  const routes = reports.flatMap(report => report?.counts.map(({ route }) => route) ?? [])
  expect([routes.length, new Set(routes).size]).toEqual([12_000, 12_000])
  expect(reports.map(report => report?.used)).toEqual([
    { key_1: usedMs },
    ...Array.from({ length: reports.length - 1 }, () => ({})),
  ])
  expect(counts.entries).toBe(0)
})

test('a report holds about a thousand entries', () => {
  counts = create({ maxEntries: 5_000 })
  for (let key = 0; key < 2_500; key++) counts.record(usageRequest({ keyId: `key_${key}` }), 200, false)
  expect(counts.reports).toBe(6)
  const sizes = Array.from({ length: 6 }, () => counts.take()?.counts.length ?? 0)
  expect(sizes).toEqual([500, 500, 500, 500, 500, 0])
})
