import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { PosternProcess } from '../support/postern-process.ts'
import { jsonAnswer, RecordingUpstream } from '../support/recording-upstream.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { until } from '../support/until.ts'

const KEY = `wsk_${'1'.repeat(54)}`
const OTHER_KEY = `wsk_${'2'.repeat(54)}`

/** The API, as the bytes that it receives. */
let api: RecordingUpstream
let proxy: PosternProcess
let url: string
const keyFile = join(mkdtempSync(join(tmpdir(), 'postern-proxy-')), 'key')

beforeAll(async () => {
  writeFileSync(keyFile, `${KEY}\n`)
  api = await RecordingUpstream.start()
  ;({ proxy, url } = await start('--url', api.url, '--key-file', keyFile))
})
const running: PosternProcess[] = []
afterAll(async () => {
  for (const each of running) await each.stop()
  await api.stop()
  rmSync(dirname(keyFile), { recursive: true })
})

async function start(...args: string[]) {
  const started = new PosternProcess(['proxy', '--port', '0', ...args], {})
  running.push(started)
  const line = await started.line(text => text.startsWith('Forwarding '))
  return { proxy: started, url: line.split(' ')[1] ?? '' }
}

/** The bytes that the API received last. */
const received = () => api.requests.at(-1) ?? ''

describe('a request to the proxy', () => {
  test('reaches the API with the key, in place of any other, and its response comes back', async () => {
    api.answer = () => jsonAnswer(200, '{"workspace":"ws_1"}')
    const response = await fetch(`${url}/api/v1/workspaces/ws_1/files?limit=7`, {
      headers: { authorization: 'Bearer other', cookie: 'session=of-another-program' },
    })
    expect([response.status, await response.json()]).toEqual([200, { workspace: 'ws_1' }])
    expect(received()).toMatch(/^GET \/api\/v1\/workspaces\/ws_1\/files\?limit=7 HTTP\/1\.1\r\n/)
    expect(received().match(/^authorization: .*$/gim)).toEqual([`authorization: Bearer ${KEY}`])
    expect(received()).toContain(`\r\nhost: ${new URL(api.url).host}\r\n`)
    expect(received()).not.toContain('cookie')
  })

  test('is printed with its status, and without its query and the key', async () => {
    await fetch(`${url}/api/v1/printed?token=secret`)
    const line = await proxy.line(text => text.includes('/api/v1/printed'))
    expect(line).toMatch(/^GET \/api\/v1\/printed\?… 200 \d+ ms$/)
    expect(proxy.lines.join('\n')).not.toContain(KEY)
  })

  test('carries the key that the file holds now', async () => {
    writeFileSync(keyFile, OTHER_KEY)
    await fetch(`${url}/api/v1/auth`)
    expect(received()).toContain(`authorization: Bearer ${OTHER_KEY}\r\n`)
    writeFileSync(keyFile, 'not a key')
    const response = await fetch(`${url}/api/v1/auth`)
    expect([response.status, await response.json()]).toMatchObject([502, { code: 'bad_gateway' }])
    writeFileSync(keyFile, KEY)
  })

  test('is 502 with a reason where the API does not answer', async () => {
    const closed = `http://127.0.0.1:${await freePort()}`
    const { url: broken } = await start('--url', closed, '--key-file', keyFile)
    const response = await fetch(`${broken}/api/v1/auth`)
    expect([response.status, await response.json()]).toEqual([
      502,
      {
        code: 'bad_gateway',
        error: `${closed} cannot be reached (ECONNREFUSED): check --url or the context`,
      },
    ])
  })
})

describe('the key is not used', () => {
  test.each([
    ['under another name for this machine', { host: 'attacker.example' }],
    ['by a page of another site', { 'sec-fetch-site': 'cross-site' }],
    ['by a page of another origin', { origin: 'https://attacker.example' }],
  ])('%s', async (_, headers) => {
    const before = api.requests.length
    const answer = await raw(['GET /api/v1/auth HTTP/1.1', ...lines({ host: new URL(url).host, ...headers })])
    expect(answer).toMatch(/^HTTP\/1\.1 403 [\s\S]*"code":"forbidden"/)
    expect(api.requests.length).toBe(before)
  })

  test('for a target that names a host', async () => {
    const before = api.requests.length
    const answer = await raw(['GET http://attacker.example/ HTTP/1.1', ...lines({ host: new URL(url).host })])
    expect(answer).toMatch(/^HTTP\/1\.1 403 /)
    expect(api.requests.length).toBe(before)
  })
})

describe('where the key comes from', () => {
  test('standard input, without --key-file', async () => {
    const { code, stderr } = await runPosternHere(['proxy', '--url', api.url, '--port', '0'], {}, '')
    expect([code, stderr]).toEqual([64, 'Write the key to standard input\n'])
  })

  test('a context, which remembers an API with its key, and lists it without the key', async () => {
    const home = temporaryDirectory()
    const added = ['context', 'add', 'prod', '--api-url', api.url]
    expect((await runPosternHere(added, { HOME: home }, KEY)).code).toBe(0)
    const shown = (await runPosternHere(['context', 'list', '-o', 'json'], { HOME: home })).stdout
    expect(JSON.parse(shown)).toMatchObject({ contexts: [{ url: null, apiUrl: api.url, key: 'saved' }] })
    expect(shown).not.toContain(KEY)
    const started = new PosternProcess(['proxy', '--port', '0'], { HOME: home })
    running.push(started)
    const line = await started.line(text => text.startsWith('Forwarding '))
    await fetch(`${line.split(' ')[1]}/api/v1/auth`)
    await until('the API has it', () => received().includes(`authorization: Bearer ${KEY}\r\n`))
    const listed = await runPosternHere(['keys', 'list', '--workspace', 'ws_1'], { HOME: home })
    expect([listed.code, listed.stderr]).toEqual([64, expect.stringContaining('has no console')])
  })

  test.each([
    [['--url', 'ftp://x'], '--url must be'],
    [[], 'The address of the API is missing'],
    [['--url', 'http://127.0.0.1:1', '--key-file', '/nowhere'], 'The key in /nowhere cannot be read'],
  ])('a mistake is said at the start: %j', async (args, words) => {
    const home = temporaryDirectory()
    const { code, stderr } = await runPosternHere(['proxy', ...args], { HOME: home }, KEY)
    expect([code, stderr]).toEqual([64, expect.stringContaining(words)])
  })
})

test('Ctrl-C ends it, with exit code 0', async () => {
  const { proxy: other } = await start('--url', api.url, '--key-file', keyFile)
  expect((await other.stop('SIGINT')).code).toBe(0)
})

const lines = (headers: Readonly<Record<string, string>>) =>
  Object.entries({ ...headers, connection: 'close' }).map(([name, value]) => `${name}: ${value}`)

/** Sends a head that `fetch` would not. @returns the response */
async function raw(head: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  let answer = ''
  for await (const chunk of socket) answer += String(chunk)
  return answer
}
