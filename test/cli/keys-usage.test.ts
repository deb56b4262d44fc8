import { beforeEach, expect, test } from 'vitest'
import { usageText } from '../../src/cli/commands/keys/usage.ts'
import { type ConsoleWithCommands, startConsoleWithCommands } from '../support/console-commands.ts'

let site: ConsoleWithCommands
let used: string
let unused: string
beforeEach(async () => {
  site = await startConsoleWithCommands()
  used = await issue()
  unused = await issue()
  const minute = Math.floor(Date.now() / 60_000)
  const count = (code: string, requests: number) => ({
    keyId: used,
    route: 'files',
    code,
    minute,
    count: requests,
  })
  const counts = [count('ok', 1200), count('scope_missing', 34)]
  const report = { gateway: 'g1', sequence: 1, used: { [used]: Date.now() }, counts, refusals: [] }
  expect((await site.send('POST', '/internal/v1/usage', report)).status).toBe(200)
})

async function issue(): Promise<string> {
  const words = ['--workspace', 'ws_1', '--scope', 'files:read', '--json']
  return JSON.parse((await site.postern('keys', 'issue', ...words)).stdout).key.id
}

test('keys usage draws a bar for each hour, and sums by code and route', async () => {
  const { code, stdout } = await site.postern('keys', 'usage', used)
  const lines = stdout.split('\n')
  expect([code, lines.length]).toEqual([0, 28])
  expect(lines[23]).toMatch(/^\d\d-\d\d \d\d:00 {2}1234 {2}█{50} {2}34 not served$/)
  expect(lines.slice(25)).toEqual([
    'Requests  1234 (times are UTC)',
    'By code   ok 1200, scope_missing 34',
    'By route  files 1234',
  ])
})

test('keys usage shows days over longer spans, and prints JSON', async () => {
  expect((await site.postern('keys', 'usage', used, '--last', '400d')).stdout.split('\n')).toHaveLength(404)
  expect((await site.postern('keys', 'usage', used, '--last', '14d', '--step', 'hour')).code).toBe(0)
  const { stdout } = await site.postern('keys', 'usage', unused, '--last', '7d', '-o', 'json')
  expect(JSON.parse(stdout)).toMatchObject({ step: 'day', usage: Array(7).fill({ requests: 0 }) })
})

test('keys usage refuses a span that is not kept, and what is no key id', async () => {
  expect((await site.postern('keys', 'usage', used, '--last', '401d')).code).toBe(64)
  const byHour = await site.postern('keys', 'usage', used, '--last', '15d', '--step', 'hour')
  expect([byHour.code, byHour.stdout]).toEqual([64, ''])
  expect(byHour.stderr).toContain('hours are kept for 14 days')
  expect((await site.postern('keys', 'usage', 'importer')).code).toBe(64)
})

test('keys list --unused lists keys that were not used for so long, or never, and none that is younger', async () => {
  const idsOf = async (...words: string[]) =>
    (await site.postern('keys', 'list', '-q', ...words)).stdout.split('\n')
  expect(await idsOf('--unused', '90d')).toEqual([''])
  expect((await idsOf('--unused', '0')).toSorted()).toEqual([used, unused].toSorted())
  expect((await site.postern('keys', 'list', '--unused', '90')).code).toBe(64)
})

test('a small count still has a bar, and none has none', () => {
  const point = (requests: number) => ({
    ...{ at: '2026-11-20T00:00:00.000Z', requests },
    ...{ byCode: { ok: requests }, byRoute: { files: requests } },
  })
  const usage = [point(100_000), point(1), point(0)]
  const [full = '', small = '', none = ''] = usageText(
    { step: 'day', usage, windows: [] },
    { width: 80, paint: (_, text) => text },
  ).split('\n')
  expect([full, small, none]).toEqual([
    `2026-11-20  100000  ${'█'.repeat(40)}`,
    '2026-11-20       1  ▏',
    '2026-11-20       0',
  ])
})

test('what is left of each rate limit stands below, and what is unknown says so', () => {
  const limit = { limit: 50, region: null }
  const windows = [
    { ...limit, policy: 'hourly', remaining: 43, resetsAt: '2026-11-20T01:00:00.000Z' },
    { ...limit, policy: 'quota', remaining: 50, resetsAt: null },
    { ...limit, policy: 'quota', region: 'eu', remaining: null, resetsAt: null },
  ]
  const text = usageText({ step: 'day', usage: [], windows }, { width: 80, paint: (_, shown) => shown })
  expect(text.split('\n').slice(-4)).toEqual([
    'Left      hourly: 43 of 50, until 2026-11-20 01:00:00 UTC',
    'Left      quota: 50 of 50',
    'Left      quota in eu: unknown of 50',
    '',
  ])
})
