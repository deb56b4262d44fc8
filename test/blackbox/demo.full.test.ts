import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { GatewaysResponse } from '../support/admin-response.ts'
import { freePort } from '../support/free-port.ts'
import { PosternProcess } from '../support/postern-process.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { CURL, has } from '../support/tools.ts'
import { until } from '../support/until.ts'

const run = promisify(execFile)
/** All that were started: they are stopped in the end, whichever tests ran and however they ended. */
const demos: PosternProcess[] = []
let demo: PosternProcess
/** A demo whose gateway cannot reach the console. It waits for ten seconds, while the other tests run. */
let unreported: PosternProcess

/** A loaded machine starts processes slowly, and the demo itself may take ten seconds more. */
const START_DEADLINE_MS = 50_000

/** On free ports: another demo on the same machine may use the default ones. */
async function spawnDemo(...flags: string[]): Promise<PosternProcess> {
  const ports = ['gateway', 'console', 'ops'].map(async name => [`--${name}-port`, String(await freePort())])
  const spawned = new PosternProcess(['demo', ...(await Promise.all(ports)).flat(), ...flags], {
    SSH_CONNECTION: '192.0.2.7 50000 192.0.2.8 22',
  })
  demos.push(spawned)
  return spawned
}

const untilReady = (spawned: PosternProcess) =>
  spawned.line(line => line.includes('Press Ctrl-C to stop'), START_DEADLINE_MS)

async function startDemo(...flags: string[]): Promise<PosternProcess> {
  const spawned = await spawnDemo(...flags)
  await untilReady(spawned)
  return spawned
}

beforeAll(async () => {
  demo = await startDemo()
  unreported = await spawnDemo('--key-service-url', `http://127.0.0.1:${await freePort()}`)
})
afterAll(async () => {
  for (const spawned of demos) await spawned.stop()
})

/** The commands that a user would copy. */
const curlLines = ({ lines } = demo) => lines.map(line => line.trim()).filter(line => line.startsWith('curl'))
const paste = async (line: string | undefined) => (await run('sh', ['-c', line ?? 'false'])).stdout

describe.skipIf(!has(CURL))('the commands that the demo prints work as pasted', () => {
  test('there are at least four commands', () => {
    expect(curlLines().length).toBeGreaterThanOrEqual(5)
  })

  test('they show the key, its workspace and two of its files', async () => {
    const [auth, workspace, files] = curlLines()
    expect(JSON.parse(await paste(auth))).toMatchObject({ workspaceId: 'ws_1' })
    expect(JSON.parse(await paste(workspace))).toMatchObject({ id: 'ws_1' })
    expect((JSON.parse(await paste(files)) as { files: unknown[] }).files).toHaveLength(2)
  })

  test('they show 404 for another workspace and 403 without the scope', async () => {
    const [, , , other, narrow] = curlLines()
    expect(JSON.parse(await paste(other))).toMatchObject({ code: 'not_found' })
    expect(JSON.parse(await paste(narrow))).toMatchObject({ code: 'scope_missing' })
  })

  test('a revoked key is rejected, and the gateway has confirmed the revocation', async () => {
    const [, , , , , revoke, after] = curlLines()
    // If the machine stalls for the second that the console waits, the next request reports the confirmation.
    const confirmed = await until('the gateway has confirmed', async () => {
      const { gateways } = JSON.parse(await paste(revoke)) as { gateways: GatewaysResponse }
      expect(gateways.known).toBe(1)
      return gateways.confirmed === 1 && gateways
    })
    expect(confirmed).toEqual({ known: 1, confirmed: 1, verifying: 0, silent: [] })
    expect(JSON.parse(await paste(after))).toMatchObject({ code: 'key_revoked' })
  })

  test('they let the command line manage the keys', async () => {
    const lines = demo.lines.map(line => line.trim())
    const commands = lines.filter(line => /^(?:export|postern) /.test(line))
    expect(commands).toHaveLength(3)
    expect(await paste(commands.join('\n'))).toContain('Demo key without files')
  })

  test('over SSH they bring the console to a browser on another machine', () => {
    const { port } = new URL(demo.lines.find(line => line.includes('/sign-in/once')) ?? '')
    expect(demo.lines).toContain(`ssh -L ${port}:127.0.0.1:${port} HOST`)
  })

  test('they say that the history is made up, and the log holds none of it', () => {
    expect(demo.lines.join('\n')).toContain('before this start are made up')
    const issues = demo.log.filter(({ msg, operation }) => msg === 'admin request' && operation === 'issue')
    expect(issues).toEqual([])
  })

  test('an empty line stands before what each of them does', () => {
    const { lines } = demo
    const headings = lines.filter(line => line.endsWith(':'))
    expect(headings.length).toBeGreaterThan(7)
    expect(headings.filter(line => lines[lines.indexOf(line) - 1] !== '')).toEqual([])
  })

  test('they stand alone: no line of the log about the keys of the demo itself is among them or before them', () => {
    const end = demo.lines.findIndex(line => line.includes('Press Ctrl-C to stop'))
    expect(end).toBeGreaterThan(0)
    expect(demo.lines.slice(0, end).filter(line => line.includes('"admin request"'))).toEqual([])
  })

  test('they show the metrics', async () => {
    expect(await paste(curlLines().at(-1))).toContain('postern_http_requests_total{')
  })
})

/** Pages, each with what the made-up history of two weeks shows there. */
const HISTORY = [
  ['/workspaces/ws_1/keys', 'Workshop slides', 'Revoked', 'Suspended', 'Expired', 'expires within 14 days'],
  ['/workspaces/ws_1/keys?q=Made+up+for+the+demo', 'Partner Northwind', 'Nightly export'],
  ['/workspaces/ws_1/usage', 'Busiest keys', 'Mobile app', 'rate_limited'],
  ['/workspaces/ws_1/refusals?code=key_expired', '<code class="muted">key_expired</code>'],
  ['/workspaces/ws_1/refusals?code=scope_missing', '<code class="muted">scope_missing</code>'],
  ['/workspaces/ws_1/refusals?code=not_found', '<code class="muted">other_workspace</code>'],
  ['/workspaces/ws_1/refusals?code=key_revoked', '<code class="muted">key_revoked</code>'],
  ['/workspaces/ws_1/audit', 'Rotated', 'Leak report', 'Sample deploy pipeline', 'Webhook set'],
  ['/workspaces/ws_1/webhook', 'Test'],
  ['/workspaces', 'ws_2', 'Design', 'Legal'],
  ['/plans', 'starter', 'team'],
  ['/limits', 'Contract archive', 'starter', '8,412'],
  ['/tokens', 'Sample support desk'],
] as const

describe('the sign-in link that the demo prints', () => {
  const link = () => demo.lines.find(line => line.includes('/sign-in/once?')) ?? ''
  const open = (url: string, headers = {}) => fetch(url, { redirect: 'manual', headers })

  test('rejects another token', async () => {
    const answer = await open(link().replace(/token=.{9}/, 'token=AAAAAAAAA'))
    expect([answer.status, answer.headers.getSetCookie()]).toEqual([400, []])
  })

  test('signs in as an administrator, to pages that show a made-up history, and works only once', async () => {
    const answer = await open(link())
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/'])
    const [line = ''] = answer.headers.getSetCookie()
    // Browsers accept neither Secure cookies nor a __Host- name over plain http.
    expect(line).toMatch(/^postern-session=[\w-]{43}; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Lax$/)
    const cookie = line.split(';')[0]
    const page = (path: string) => open(new URL(path, link()).href, { cookie })
    for (const path of ['/workspaces/ws_1/keys', '/keys', '/people']) {
      expect([path, (await page(path)).status]).toEqual([path, 200])
    }

    for (const [path, ...shown] of HISTORY) {
      const text = await (await page(path)).text()
      expect([path, shown.filter(words => !text.includes(words))]).toEqual([path, []])
    }

    const again = await open(link())
    expect([again.status, again.headers.getSetCookie()]).toEqual([400, []])
    expect(await again.text()).toContain('already used')
  })
})

test('the audit log with the made-up history is a chain in the order of time', async () => {
  const [, console = '', token = ''] =
    /CONSOLE_URL=(\S+) POSTERN_ADMIN_TOKEN=(\S+)/.exec(demo.lines.join('\n')) ?? []
  const response = await fetch(`${console}/admin/v1/audit?limit=100`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const { entries } = (await response.json()) as { entries: { at: string }[] }
  expect(entries.length).toBeGreaterThan(20)
  const times = entries.map(({ at }) => at)
  expect(times).toEqual(times.toSorted().toReversed())
})

test('the demo prints its text before any line of its log', async () => {
  const isLog = (line: string) => line.startsWith('{')
  await until('the demo has logged that it listens', () => demo.log.some(({ msg }) => msg === 'listening'))
  const end = demo.lines.findIndex(line => line.includes('Press Ctrl-C to stop'))
  expect(demo.lines.slice(0, end).filter(isLog)).toEqual([])
})

test('the demo logs no failure while it starts', async () => {
  await until('the demo has logged that it listens', () => demo.log.some(({ msg }) => msg === 'listening'))
  const firstUse = demo.log.findIndex(({ msg }) => msg === 'admin request')
  const started = demo.log.slice(0, firstUse < 0 ? demo.log.length : firstUse)
  expect(started.filter(({ level }) => Number(level) > 30)).toEqual([])
})

test.skipIf(!has(CURL))('the commands are printed once the gateway has reported to the console', async () => {
  const revoke = curlLines(await startDemo())[5]?.replace('?wait=1', '')
  expect(JSON.parse(await paste(revoke))).toMatchObject({ gateways: { known: 1 } })
})

test.each([
  ['leak reports and webhooks are off', ['leaks-enabled', 'webhooks-workspaces-enabled'], /^$/],
  ['webhooks must use https', ['webhooks-workspaces-allow-http'], /not complete: .*\n?.*goes on without/],
])('the demo also starts where %s', async (_, settings, stderr) => {
  const other = await startDemo(...settings.flatMap(name => [`--${name}`, 'false']))
  expect((await other.stop('SIGINT')).stderr).toMatch(stderr)
})

test('the demo runs in front of a service with routes and ports of its user, and prints its requests', async () => {
  const service = await RecordingUpstream.start()
  onTestFinished(() => service.stop())
  const file = join(temporaryDirectory(), 'postern.yaml')
  const [gateway, console, ops] = await Promise.all([freePort(), freePort(), freePort()])
  await writeFile(
    file,
    `
upstream: { url: ${service.url} }
gateway: { port: ${gateway} }
scopes: { 'orders:read': Read orders, 'files:read': null, 'workspace:read': null }
routes:
  workspace: null
  files: null
  order: { path: '/v1/{workspaceId}/orders/{order}', scope: 'orders:read' }
`,
  )
  const ports = { POSTERN_CONSOLE_PORT: String(console), POSTERN_OPS_PORT: String(ops) }
  const own = new PosternProcess(['demo', '--config', file], ports)
  demos.push(own)
  await untilReady(own)
  expect(own.lines).toContain(`Postern is running, in front of ${service.url}. Everything is in memory.`)
  expect(own.lines.join('\n')).not.toContain('is in use')
  const request = curlLines(own)[1]
  expect(request).toContain(`'http://127.0.0.1:${gateway}/v1/ws_1/orders/order'`)
  const secret = request?.split('Bearer ')[1]?.slice(0, -1)
  const url = `http://127.0.0.1:${gateway}/v1/ws_1/orders/7`
  const answer = await fetch(url, { headers: { authorization: `Bearer ${secret}` } })
  expect([answer.status, service.requests[0]?.split('\r\n')[0]]).toEqual([
    200,
    'GET /v1/ws_1/orders/7 HTTP/1.1',
  ])
})

test('the demo refuses the Redis and webhook of an installation, which its made-up keys must not reach', async () => {
  const settings = {
    POSTERN_REDIS_URL: 'redis://127.0.0.1:1',
    POSTERN_CONSOLE_WEBHOOK_URL: 'https://hooks.example/keys',
    POSTERN_CONSOLE_WEBHOOK_SECRET: Buffer.alloc(32, 'a1b2c3').toString('base64'),
  }
  const refused = new PosternProcess(['demo'], settings)
  demos.push(refused)
  expect(await refused.exited).toMatchObject({
    code: 78,
    stderr: expect.stringMatching(/^redis, console\.webhook: /),
  })
})

test('Ctrl-C stops it at once', async () => {
  const started = performance.now()
  const exit = await demo.stop('SIGINT')
  expect([exit.code, exit.stderr]).toEqual([0, ''])
  expect(performance.now() - started).toBeLessThan(5000)
})

test('if the gateway does not report in time, the demo says so and prints its commands', async () => {
  await untilReady(unreported)
  const { stderr } = await unreported.stop()
  expect(stderr).toContain('The gateway has not reported to the console within 10 s')
})
