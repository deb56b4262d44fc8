import { beforeEach, expect, test } from 'vitest'
import { ADMIN_TOKEN } from '../support/console.ts'
import { type ConsoleWithCommands, startConsoleWithCommands } from '../support/console-commands.ts'

const LIST = ['refusals', 'list', '--workspace', 'ws_1']

let site: ConsoleWithCommands
let first: string
let second: string
beforeEach(async () => {
  site = await startConsoleWithCommands()
  first = await issue('ws_1')
  second = await issue('ws_1')
  const nowMs = Date.now()
  const refusal = (keyId: string, requestId: string, more: object) => ({
    ...{ at: nowMs - 2000, keyId, requestId, route: 'files', address: '192.0.2.0/24' },
    ...more,
  })
  const refusals = [
    refusal(first, 'r-scope', { code: 'scope_missing', reason: 'scope_missing' }),
    refusal(first, 'r-other', { code: 'not_found', reason: 'other_workspace', at: nowMs }),
    refusal(second, 'r-limit', { code: 'rate_limited', reason: 'rate_limited', at: nowMs - 1000 }),
  ]
  await report(1, { refusals })
})

async function issue(workspace: string): Promise<string> {
  const words = ['--workspace', workspace, '--scope', 'files:read', '--json']
  return JSON.parse((await site.postern('keys', 'issue', ...words)).stdout).key.id
}
async function report(sequence: number, lists: object) {
  const body = { gateway: 'g1', sequence, used: {}, counts: [], refusals: [], ...lists }
  expect((await site.send('POST', '/internal/v1/usage', body)).status).toBe(200)
}

test('refusals list says why requests were rejected, newest first', async () => {
  const { code, stdout, stderr } = await site.postern(...LIST)
  const [head = '', ...rows] = stdout.split('\n')
  expect([code, stderr]).toEqual([0, ''])
  expect(head).toMatch(/^AT \(UTC\) +REASON +KEY +ROUTE +CODE +REQUEST +ADDRESS$/)
  expect(rows.map(row => row.split(/ {2,}/).slice(1))).toEqual([
    ['other_workspace', first, 'files', 'not_found', 'r-other', '192.0.2.0/24'],
    ['rate_limited', second, 'files', 'rate_limited', 'r-limit', '192.0.2.0/24'],
    ['scope_missing', first, 'files', 'scope_missing', 'r-scope', '192.0.2.0/24'],
  ])
})

test('a narrow table keeps reason and key', async () => {
  const { stdout } = await site.postern(...LIST)
  const narrow = await site.withToken(ADMIN_TOKEN, { COLUMNS: '80' })(...LIST)
  expect(narrow.stdout.split('\n').filter(line => line.length > 80)).toEqual([])
  expect(narrow.stdout).toContain(`other_workspace  ${first}`)
  expect(stdout.length).toBeGreaterThan(narrow.stdout.length)
})

test.each([
  [[], ['r-other', 'r-limit', 'r-scope']],
  [
    ['--limit', '2'],
    ['r-other', 'r-limit'],
  ],
  [['--request-id', 'r-scope'], ['r-scope']],
  [['--request-id', 'unknown'], []],
  [['--code', 'not_found'], ['r-other']],
])('refusals list %j prints %j', async (words, ids) => {
  expect((await site.postern(...LIST, '-q', ...words)).stdout.split('\n').filter(Boolean)).toEqual(ids)
  const { refusals } = JSON.parse((await site.postern(...LIST, '--json', ...words)).stdout)
  expect(refusals.map(({ requestId }: { requestId: string }) => requestId)).toEqual(ids)
  const lines = (await site.postern(...LIST, '-o', 'ndjson', ...words)).stdout.split('\n').filter(Boolean)
  expect(lines.map(line => JSON.parse(line).requestId)).toEqual(ids)
})

test('refusals list --key lists the requests with that key', async () => {
  const { stdout } = await site.postern(...LIST, '-q', '--key', second)
  expect(stdout.split('\n').filter(Boolean)).toEqual(['r-limit'])
})

test('refusals list without a workspace lists those of all, and says of which each is', async () => {
  const other = await issue('ws_2')
  const refused = { at: Date.now() - 3000, keyId: other, route: 'files', address: '192.0.2.0/24' }
  const limited = { ...refused, code: 'rate_limited', reason: 'rate_limited', requestId: 'r-ws2' }
  await report(2, { refusals: [limited] })
  const { code, stdout, stderr } = await site.postern('refusals', 'list')
  const [head = '', ...rows] = stdout.split('\n')
  expect([code, stderr]).toEqual([0, ''])
  expect(head).toMatch(/^AT \(UTC\) +REASON +KEY +WORKSPACE +ROUTE +CODE +REQUEST +ADDRESS$/)
  const cells = rows.map(row => row.split(/ {2,}/)).map(row => [row[2], row[3], row[6]])
  expect(cells).toEqual([
    [first, 'ws_1', 'r-other'],
    [second, 'ws_1', 'r-limit'],
    [first, 'ws_1', 'r-scope'],
    [other, 'ws_2', 'r-ws2'],
  ])
  const found = async (...words: string[]) => (await site.postern('refusals', 'list', '-q', ...words)).stdout
  expect(await found('--code', 'rate_limited')).toBe('r-limit\nr-ws2')
  expect(await found('--request-id', 'r-ws2')).toBe('r-ws2')
  expect(await found('--key', other)).toBe('r-ws2')
  expect(await found('--key', other, '--code', 'scope_missing')).toBe('')
})

test('refusals list --from --to lists the requests of that time, the first instant included and the last one not', async () => {
  const { refusals } = JSON.parse((await site.postern(...LIST, '--json')).stdout)
  const [newest, middle] = refusals.map(({ at }: { at: string }) => at)
  for (const words of [LIST, ['refusals', 'list']]) {
    const found = async (...more: string[]) => (await site.postern(...words, '-q', ...more)).stdout
    expect(await found('--from', middle)).toBe('r-other\nr-limit')
    expect(await found('--to', newest)).toBe('r-limit\nr-scope')
    expect(await found('--from', middle, '--to', newest)).toBe('r-limit')
    expect(await found('--from', middle, '--to', newest, '--key', first)).toBe('')
  }
})

test('refusals list without a workspace is not for a token of some workspaces', async () => {
  const words = ['--name', 'reader', '--permission', 'keys:read', '--workspace', 'ws_1']
  const { stdout } = await site.postern('tokens', 'issue', ...words)
  const reader = site.withToken(stdout.trim())
  const denied = await reader('refusals', 'list')
  expect([denied.code, denied.stderr]).toEqual([77, expect.stringContaining('in all workspaces')])
  expect((await reader(...LIST, '-q')).code).toBe(0)
})

test('refusals list says so if gateways left some out, or if there are none', async () => {
  await report(2, { omittedRefusals: [{ workspaceId: 'ws_1', count: 4 }] })
  expect((await site.postern(...LIST, '-q')).stderr).toContain('gateways left some rejected requests out')
  const { stdout, stderr } = await site.postern(...LIST, '--request-id', 'unknown')
  expect([stdout, stderr]).toEqual(['', expect.stringContaining('no rejected requests that match')])
})

test.each([
  [['refusals', 'list', '--workspace', 'a/b']],
  [[...LIST, '--limit', '0']],
  [[...LIST, '--key', 'importer']],
  [[...LIST, '--from', 'yesterday']],
])('%j is a wrong command line', async words => {
  expect(await site.postern(...words)).toMatchObject({ code: 64, stdout: '' })
})
