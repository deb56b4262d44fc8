import { expect, test } from 'vitest'
import type { ConsoleOptions } from '../../support/console.ts'
import { startSignIn } from '../../support/signed-in.ts'

const WORKSPACE = '/workspaces/ws_1'

async function started(options: ConsoleOptions = {}) {
  const oidc = { administratorClaim: 'roles', administratorValue: 'postern-admin' }
  const world = await startSignIn({ ...options, signIn: { oidc } })
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1', 'ws_2'] })
  const issue = async (name: string, workspaceId = 'ws_1') => {
    const asked = { name, scopes: ['files:read'] }
    return (await world.ask('POST', `/admin/v1/workspaces/${workspaceId}/keys`, asked)).body.key.id
  }
  const keyId = await issue('build <b>server</b>')
  let sequence = 0
  const report = (counts: readonly object[], more: object = {}) =>
    world.ask('POST', '/internal/v1/usage', {
      ...{ gateway: 'gateway-1.a1b2', sequence: ++sequence, used: {} },
      ...{ counts: counts.map(count => ({ ...NOW, keyId, ...count })), refusals: [], ...more },
    })
  const visit = async (path: string, person = ada) => {
    const { status, text } = await person.browser.visit(path)
    return { status, markup: text, text: text.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ') }
  }
  const page = async (path: string, person = ada) => (await visit(path, person)).text
  return { ...world, ada, issue, keyId, report, page, visit, keyPath: `${WORKSPACE}/keys/${keyId}` }
}

/** A served request of this minute. */
const NOW = {
  ...{ route: 'files', code: 'ok', count: 1 },
  get minute() {
    return Math.floor(Date.now() / 60_000)
  },
}

test('the key’s page shows requests of a day, two weeks and 400 days, by route and code', async () => {
  const { report, page, keyPath, keyId } = await started()
  await report([{ count: 1200 }, { count: 3, code: 'scope_missing', route: 'workspace' }], {
    used: { [keyId]: Date.now() },
  })
  const spans = { '24h': '24 hours', '14d': '14 days', '400d': '400 days', nonsense: '24 hours' }
  for (const [range, span] of Object.entries(spans)) {
    const text = await page(`${keyPath}?range=${range}`)
    expect(text).toContain(`Requests in ${span}: 1,200 served, 3 not served.`)
    expect(text).toContain('By route Route Served Not served files 1,200 0 workspace 0 3')
    expect(text).toContain('Not served, by code Code Requests scope_missing 3')
    expect(text).toMatch(/Last used \d+ seconds? ago , as of \d\d:\d\d:\d\d UTC/)
  }
})

/** The hour before the present one can be of yesterday. */
const RECENT = /Requests since (?:\d+ \w+ \d{4}, )?\d\d:00 UTC: 42 served, 2 not served/

test('questions before a rotation or revocation show the requests of the key’s last hour', async () => {
  const { report, page, keyPath } = await started()
  await report([{ count: 42 }, { count: 2, code: 'rate_limited' }])
  for (const path of ['', '/revoke', '/suspend', '/rotate']) {
    expect(await page(keyPath + path)).toMatch(RECENT)
  }
})

test('without counts the pages say so, and are no errors', async () => {
  const { visit, keyPath } = await started({ keepsUsage: false })
  const { status, text } = await visit(keyPath)
  expect([status, text]).toEqual([
    200,
    expect.stringContaining('Requests are not counted: the setting usage.enabled of this console is false.'),
  ])
  for (const path of ['/revoke', '/rotate']) {
    expect((await visit(keyPath + path)).text).not.toContain('Requests since')
  }
})
