import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runPosternHere } from '../support/postern-here.ts'
import { PROGRAM, runPostern } from '../support/postern-process.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'

let world: World
beforeAll(async () => {
  world = await startWorld()
})
afterAll(() => world.stop())

const postern = (...args: string[]) => runPostern(args, world.cliEnv)
const posternHere = (...args: string[]) => runPosternHere(args, world.cliEnv)

async function send(secret: string): Promise<{ status: number; json: Record<string, unknown> }> {
  const headers = { authorization: `Bearer ${secret}` }
  const response = await fetch(`${world.gateway.urls.gateway}/api/v1/auth`, { headers })
  return { status: response.status, json: (await response.json()) as Record<string, unknown> }
}

test('a key can be issued, used and listed, and is rejected after its revocation', async () => {
  const words = [
    '--workspace',
    'ws_life',
    '--scope',
    'files:read',
    '--name',
    'importer',
    '--expires-in',
    '2h',
  ]
  const issued = await postern('keys', 'issue', ...words)
  expect(issued.code).toBe(0)
  const secret = issued.stdout
  const { status, json } = await send(secret)
  expect([status, json['workspaceId'], json['scopes']]).toEqual([200, 'ws_life', ['files:read']])
  const id = String(json['keyId'])
  expect(issued.stderr).toContain(id)

  const listed = await postern('keys', 'list', '--workspace', 'ws_life')
  expect(listed.stdout).toMatch(
    new RegExp(
      `^${id} .* importer +files:read +active .* in 2 hours +\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d +(?:Never used|just now)$`,
      'm',
    ),
  )
  expect(listed.stdout + listed.stderr + issued.stderr).not.toContain(secret)

  const revoked = await postern('keys', 'revoke', id, '--yes')
  expect(revoked).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining(id) })
  await until('the key is rejected', async () => (await send(secret)).json['code'] === 'key_revoked')
  // Its text may differ: by now gateways may have confirmed.
  const again = await posternHere('keys', 'revoke', id, '--yes')
  expect(again).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining(id) })
})

test('--json prints the key as the admin API describes it', async () => {
  const exit = await postern('keys', 'issue', '--workspace', 'ws_json', '--scope', 'files:read', '--json')
  const { key, secret } = JSON.parse(exit.stdout) as { key: Record<string, unknown>; secret: string }
  expect((await world.admin('GET', `/keys/${key['id']}`)).json).toEqual({ key })
  const listed = await posternHere('keys', 'list', '--workspace', 'ws_json', '--json')
  expect(JSON.parse(listed.stdout)).toEqual({ keys: [key] })
  expect((await send(secret)).status).toBe(200)
})

test('a key can live for a minute, and no shorter', async () => {
  const issue = ['keys', 'issue', '--workspace', 'ws_1', '--scope', 'files:read', '--expires-in']
  expect((await posternHere(...issue, '1m')).code).toBe(0)
  const refused = await posternHere(...issue, '59s')
  expect(refused).toEqual({
    code: 64,
    stdout: '',
    stderr: '--expires-in: 59 seconds is shorter than 1 minute\n',
  })
})

test('a list of more than one page is complete', async () => {
  const count = 205
  for (let i = 0; i < count; i++) await world.issue({ workspaceId: 'ws_many' })
  const exit = await postern('keys', 'list', '--workspace', 'ws_many')
  expect(new Set(exit.stdout.match(/^key_\w+/gm)).size).toBe(count)
})

test('a reader that closes the pipe is no error', async () => {
  const child = spawn(process.execPath, [...PROGRAM, 'keys', 'list', '--workspace', 'ws_many'], {
    env: { PATH: process.env['PATH'], ...world.cliEnv },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.destroy()
  const closed = once(child, 'close')
  expect(await text(child.stderr)).toBe('')
  expect(await closed).toEqual([141, null])
})

test('an unknown key and an unknown token are errors', async () => {
  const unknown = await posternHere('keys', 'revoke', 'key_00000000000000000000000000', '--yes')
  expect(unknown).toMatchObject({ code: 65, stderr: expect.stringContaining('No such key') })
  const list = ['keys', 'list', '--workspace', 'ws_1', '--token', 'not-the-token-of-this-console']
  expect(await posternHere(...list)).toMatchObject({ code: 77, stdout: '' })
})
