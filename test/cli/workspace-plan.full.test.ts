import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startConsole } from '../support/console.ts'
import { runPosternHere } from '../support/postern-here.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'

async function started() {
  const running = await startConsole({ plans: ['free', 'business'] })
  const url = await running.app.listen({ host: '127.0.0.1', port: 0 })
  const env = { POSTERN_CONSOLE_URL: url, POSTERN_ADMIN_TOKEN: ADMIN_TOKEN }
  const postern = (...args: string[]) => runPosternHere(args, env)
  const issue = async () =>
    (await running.send('POST', KEYS, { name: 'build server', scopes: ['files:read'] })).body.key.id
  return { ...running, postern, issue }
}

test('workspaces plan shows the plan of a workspace, changes it for all its keys, and takes it away', async () => {
  const { postern, issue, send } = await started()
  const id = await issue()
  expect((await postern('workspaces', 'plan', 'ws_1')).stdout).toBe('Workspace ws_1 has no plan.')
  const changed = await postern('workspaces', 'plan', 'ws_1', '--set', 'business', '--yes')
  expect([changed.code, changed.stdout]).toEqual([
    0,
    expect.stringContaining('Workspace ws_1 has the plan business; changed 1 key.\n'),
  ])
  expect((await send('GET', `/admin/v1/keys/${id}`)).body.key).toMatchObject({ plan: 'business' })
  expect((await postern('workspaces', 'plan', 'ws_1', '--json')).stdout).toBe('{"plan":"business"}')
  expect((await postern('workspaces', 'plan', 'ws_1', '--clear', '--yes')).code).toBe(0)
  expect((await send('GET', `/admin/v1/keys/${id}`)).body.key).toMatchObject({ plan: null })
})

test('workspaces plan changes nothing without a terminal or --yes, and names the plans for one that there is not', async () => {
  const { postern, send } = await started()
  const asked = await postern('workspaces', 'plan', 'ws_1', '--set', 'free')
  expect([asked.code, asked.stderr]).toEqual([64, expect.stringContaining('add --yes to change the plan')])
  const unknown = await postern('workspaces', 'plan', 'ws_1', '--set', 'gold', '--yes')
  expect([unknown.code, unknown.stderr]).toEqual([65, expect.stringContaining('one of business, free')])
  expect((await postern('workspaces', 'plan', 'ws_1', '--set', 'free', '--clear')).code).toBe(64)
  expect((await send('GET', '/admin/v1/workspaces/ws_1/plan')).body).toEqual({ plan: null })
})

test('keys issue, list, show and edit take and show the plan of a key', async () => {
  const { postern, issue } = await started()
  await issue()
  const where = ['--workspace', 'ws_1', '--scope', 'files:read']
  expect((await postern('keys', 'issue', ...where, '--plan', 'free')).code).toBe(0)
  const listed = await postern('keys', 'list', '--plan', 'free', '-q')
  const [id = '', ...others] = listed.stdout.trim().split('\n')
  expect(others).toEqual([])
  expect((await postern('keys', 'show', id)).stdout).toMatch(/^Plan +free$/m)
  expect((await postern('keys', 'edit', id, '--plan', 'business')).code).toBe(0)
  expect((await postern('keys', 'show', id)).stdout).toMatch(/^Plan +business$/m)
  expect((await postern('keys', 'edit', id, '--clear', 'plan')).code).toBe(0)
  expect((await postern('keys', 'show', id)).stdout).not.toMatch(/^Plan /m)
})
