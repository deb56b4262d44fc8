import { expect, test } from 'vitest'
import { ADMIN_CALLS } from '../../../src/console/api-reference/admin-api.ts'
import { PERMISSIONS } from '../../../src/console/platform/access/principal.ts'
import { type RunningConsole, startConsole } from '../../support/console.ts'

/** Each call of the admin API, and what a caller needs for it: the permission, and whether in every workspace. */
const NEEDS: Readonly<Record<string, string>> = {
  issueKey: 'keys:write',
  rotateKey: 'keys:write',
  revokeKey: 'keys:write',
  suspendKey: 'keys:write',
  resumeKey: 'keys:write',
  editKey: 'keys:write',
  checkEdit: 'keys:write',
  revokeAllKeys: 'keys:write',
  setWorkspacePlan: 'keys:write in all workspaces',
  getWorkspacePlan: 'keys:read',
  listKeys: 'keys:read',
  getKey: 'keys:read',
  searchKeys: 'keys:read',
  listWorkspaces: 'keys:read',
  findKey: 'keys:read',
  exportKeys: 'keys:write in all workspaces',
  importKeys: 'keys:write',
  checkImport: 'keys:write',
  getKeyUsage: 'keys:read',
  getWorkspaceUsage: 'keys:read',
  listRefusals: 'keys:read',
  searchRefusals: 'keys:read in all workspaces',
  exportRefusals: 'keys:read in all workspaces',
  listNearLimits: 'keys:read',
  listWorkspaceAudit: 'audit:read',
  searchAudit: 'audit:read',
  exportAudit: 'audit:read in all workspaces',
  issueToken: 'tokens:write',
  listTokens: 'tokens:write',
  revokeToken: 'tokens:write',
  whoami: 'nothing',
  listDeliveries: 'keys:read',
  getWorkspaceWebhook: 'keys:read',
  setWorkspaceWebhook: 'keys:write',
  removeWorkspaceWebhook: 'keys:write',
  testWorkspaceWebhook: 'keys:write',
  listWorkspaceWebhookDeliveries: 'keys:read',
  syncKeys: 'keys:write in all workspaces',
  describeAdminApi: 'nothing',
}
/** A token that may change keys may read them. */
const INCLUDED: Readonly<Record<string, readonly string[]>> = { 'keys:read': ['keys:read', 'keys:write'] }

const pathOf = (url: string) =>
  `/admin/v1${url}`
    .replace(':workspaceId', 'ws_1')
    .replace(':keyId', 'key_01ARZ3NDEKTSV4RRFFQ69G5FAV')
    .replace(':tokenId', 'tok_01ARZ3NDEKTSV4RRFFQ69G5FAV')

async function tokenWith(running: RunningConsole, permissions: readonly string[], more: object = {}) {
  const wanted = { name: 'program', permissions, expiresInDays: 1, ...more }
  return (await running.send('POST', '/admin/v1/tokens', wanted)).body.secret
}

test('each call is refused to a token that has every permission but the one that it needs, and to no other', async () => {
  const running = await startConsole({ workspaceWebhooks: { enabled: true } })
  const ids = ADMIN_CALLS.map(({ id }) => id)
  expect(ids.sort(), 'Say in NEEDS above what a new call requires').toEqual(Object.keys(NEEDS).sort())
  const answerTo = async ({ method, url }: (typeof ADMIN_CALLS)[number], secret: string) => {
    const headers = { authorization: `Bearer ${secret}` }
    const body = method === 'GET' ? undefined : {}
    const { status, body: answer } = await running.send('POST', pathOf(url), body, { method, headers })
    return { status, error: answer?.error }
  }
  for (const call of ADMIN_CALLS) {
    const [permission = '', everywhere] = (NEEDS[call.id] ?? '').split(' in ')
    const isFree = permission === 'nothing'
    const enough = isFree ? [] : (INCLUDED[permission] ?? [permission])
    const others = PERMISSIONS.filter(one => !enough.includes(one))
    const without = await answerTo(call, await tokenWith(running, others))
    const refusal = `This call requires the permission ${permission}`
    if (isFree) expect([call.id, without.status]).toEqual([call.id, 200])
    else expect([call.id, without]).toEqual([call.id, { status: 403, error: refusal }])
    for (const one of enough) {
      const own = await answerTo(call, await tokenWith(running, [one], { workspaces: ['ws_1'] }))
      if (everywhere === undefined) expect([call.id, own.status === 403]).toEqual([call.id, false])
      else expect([call.id, own]).toEqual([call.id, { status: 403, error: `${refusal} in all workspaces` }])
      const all = await answerTo(call, await tokenWith(running, [one]))
      expect([call.id, all.status === 403]).toEqual([call.id, false])
    }
  }
})
