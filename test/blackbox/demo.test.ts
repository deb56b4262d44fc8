import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PosternProcess } from '../support/postern-process.ts'
import { CURL, has } from '../support/tools.ts'

const run = promisify(execFile)
let demo: PosternProcess

beforeAll(async () => {
  demo = new PosternProcess(['demo'], {})
  await demo.line(line => line.includes('Ctrl-C ends it'))
})
afterAll(() => demo.stop())

/** The lines that a person would copy. */
const curlLines = () => demo.lines.map(line => line.trim()).filter(line => line.startsWith('curl'))
const paste = async (line: string | undefined) => (await run('sh', ['-c', line ?? 'false'])).stdout

describe.skipIf(!has(CURL))('the demo prints lines that work as they stand', () => {
  test('at least four of them', () => {
    expect(curlLines().length).toBeGreaterThanOrEqual(5)
  })

  test('what a key is, its workspace, two of its files', async () => {
    const [auth, workspace, files] = curlLines()
    expect(JSON.parse(await paste(auth))).toMatchObject({ workspaceId: 'ws_1' })
    expect(JSON.parse(await paste(workspace))).toMatchObject({ id: 'ws_1' })
    expect((JSON.parse(await paste(files)) as { files: unknown[] }).files).toHaveLength(2)
  })

  test('404 for another workspace, 403 without the scope', async () => {
    const [, , , other, narrow] = curlLines()
    expect(JSON.parse(await paste(other))).toMatchObject({ code: 'not_found' })
    expect(JSON.parse(await paste(narrow))).toMatchObject({ code: 'scope_missing' })
  })

  test('a key that is revoked is refused, and the gateway has confirmed that before', async () => {
    const [, , , , , revoke, after] = curlLines()
    expect(JSON.parse(await paste(revoke))).toMatchObject({ gateways: { confirmed: 1, silent: [] } })
    expect(JSON.parse(await paste(after))).toMatchObject({ code: 'key_revoked' })
  })

  test('the metrics', async () => {
    expect(await paste(curlLines().at(-1))).toContain('postern_http_requests_total{')
  })
})

describe('the link that it prints', () => {
  const link = () => demo.lines.find(line => line.includes('/sign-in/once?')) ?? ''
  const open = (url: string, headers = {}) => fetch(url, { redirect: 'manual', headers })

  test('does not sign in with another token', async () => {
    const answer = await open(link().replace(/token=.{9}/, 'token=AAAAAAAAA'))
    expect([answer.status, answer.headers.getSetCookie()]).toEqual([400, []])
  })

  test('signs in, to the demo’s workspaces, and only once', async () => {
    const answer = await open(link())
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/'])
    const [line = ''] = answer.headers.getSetCookie()
    // Browsers take no Secure cookie, nor a __Host- name, over plain http.
    expect(line).toMatch(/^postern-session=[\w-]{43}; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Lax$/)
    const cookie = line.split(';')[0]
    const keys = (workspace: string) =>
      open(new URL(`/admin/v1/workspaces/${workspace}/keys`, link()).href, { cookie })
    expect((await keys('ws_1')).status).toBe(200)
    expect((await keys('ws_3')).status).toBe(404)

    const again = await open(link())
    expect([again.status, again.headers.getSetCookie()]).toEqual([400, []])
    expect(await again.text()).toContain('used before')
  })
})

test('Ctrl-C ends it at once', async () => {
  const started = performance.now()
  const exit = await demo.stop('SIGINT')
  expect([exit.code, exit.stderr]).toEqual([0, ''])
  expect(performance.now() - started).toBeLessThan(5000)
})
