import { expect, onTestFinished, test } from 'vitest'
import { runPostern } from '../support/postern-process.ts'
import { refuses, ScriptedAdmin, says } from '../support/scripted-admin.ts'

const KEYS = '/admin/v1/keys?workspaceId=ws_1'
const REVOKE_ALL = '/admin/v1/workspaces/ws_1/revoke-all?wait=1'
const COMMAND = ['keys', 'revoke-all', '--workspace', 'ws_1', '--yes']
const gateways = { known: 1, confirmed: 1, verifying: 0, silent: [] }
const part = (revoked: number) => ({ revoked, announced: true, gateways, hasMore: true, cursor: 'key_9' })
const counts = [says(200, { total: 600 }), says(200, { total: 100 }), says(200, { total: 0 })]

async function startAdmin(): Promise<ScriptedAdmin> {
  const admin = await ScriptedAdmin.start()
  onTestFinished(() => admin.stop())
  return admin
}

test('revoke-all calls until no key is left, shows how far it is, and sums up', async () => {
  const admin = await startAdmin()
  const end = says(200, { revoked: 0, announced: true, gateways: null })
  admin.answers(says(200, part(300)), ...counts, says(200, part(700)), end)
  const exit = await runPostern(COMMAND, admin.env)
  expect([exit.code, exit.stdout]).toEqual([
    0,
    'Revoked 1000 keys of workspace ws_1.\nSaved and announced.\nConfirmed by 1 of 1 gateway.',
  ])
  expect(exit.stderr).toContain('300 of 1000 keys revoked')
  expect(exit.stderr).toContain('1000 of 1000 keys revoked')
  expect(admin.requests.map(({ path }) => path)).toEqual([
    REVOKE_ALL,
    ...['active', 'retiring', 'suspended'].map(state => `${KEYS}&state=${state}&limit=1&count=1`),
    `${REVOKE_ALL}&cursor=key_9`,
    `${REVOKE_ALL}&cursor=key_9`,
  ])
})

test('revoke-all --json is one object for all its calls', async () => {
  const admin = await startAdmin()
  admin.answers(says(200, part(300)), ...counts, says(200, { revoked: 700, announced: true, gateways }))
  const { code, stdout } = await runPostern([...COMMAND, '--json'], admin.env)
  expect([code, JSON.parse(stdout)]).toEqual([0, { revoked: 1000, announced: true, gateways }])
})

test('revoke-all that fails between its calls says how many keys it revoked, and what to do', async () => {
  const admin = await startAdmin()
  admin.answers(says(200, part(300)), ...counts, refuses(503, 'database_unavailable', 'No database'))
  const { code, stderr } = await runPostern(COMMAND, admin.env)
  expect(code).toBe(69)
  expect(stderr).toContain('Before that, 300 keys revoked. Repeat the command: it revokes the rest')
})

test('revoke-all --json that fails says so in its one line', async () => {
  const admin = await startAdmin()
  admin.answers(says(200, part(300)), ...counts, refuses(503, 'database_unavailable', 'No database'))
  const { code, stdout, stderr } = await runPostern([...COMMAND, '--json'], admin.env)
  expect([code, stdout, JSON.parse(stderr)]).toEqual([
    69,
    '',
    { code: 'unavailable', error: expect.stringContaining('Before that, 300 keys revoked') },
  ])
})
