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
    return (await world.send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, asked)).body.key.id
  }
  const keyId = await issue('build <b>server</b>')
  let sequence = 0
  const report = (counts: readonly object[], more: object = {}) =>
    world.send('POST', '/internal/v1/usage', {
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

const refusal = (keyId: string, requestId: string, reason = 'other_workspace') => ({
  ...{ keyId, requestId, reason, at: Date.now(), route: 'files', address: '192.0.2.0/24' },
  code: reason === 'other_workspace' ? 'not_found' : reason,
})

/** A served request of this minute. */
const NOW = {
  ...{ route: 'files', code: 'ok', count: 1 },
  get minute() {
    return Math.floor(Date.now() / 60_000)
  },
}

test('the key’s page shows requests of a day, a week, 30 and 400 days, and other days, by route and code', async () => {
  const { report, page, keyPath, keyId } = await started()
  await report([{ count: 1200 }, { count: 3, code: 'scope_missing', route: 'workspace' }], {
    used: { [keyId]: Date.now() },
  })
  const today = new Date().toISOString().slice(0, 10)
  const bars = {
    ...{ '24h': 'an hour', '7d': '6 hours', '30d': 'a day', '400d': 'a week', nonsense: 'an hour' },
    [`custom&from=${today}&to=`]: 'an hour',
  }
  for (const [range, bar] of Object.entries(bars)) {
    const text = await page(`${keyPath}?range=${range}`)
    expect(text).toContain('Requests 1,203 Success rate 99.75% Not served 3')
    expect(text).toContain(`A bar is ${bar}`)
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

test('the workspace’s page shows its requests, busiest keys and unused keys', async () => {
  const { report, issue, page, keyId } = await started()
  const other = await issue('importer')
  await report([{ count: 5 }, { count: 2, code: 'rate_limited' }, { count: 9, keyId: other }], {
    used: { [keyId]: Date.now(), [other]: Date.now() },
  })
  await issue('left unused')
  const text = await page(`${WORKSPACE}/usage?range=30d`)
  expect(text).toContain('Requests 16 Success rate 87.5% Not served 2')
  expect(text).toContain('Not served, by code Code Requests rate_limited 2')
  expect(text).toMatch(/Key Served Not served importer wsk_…\w{4} 9 0 build &lt;b&gt;.* wsk_…\w{4} 5 2/)
  expect(text).toContain('Never 1 Not in 30 days 0 Not in 90 days 0')
  expect(text).toMatch(/as gateways reported them until \d\d:\d\d:\d\d UTC/)
  const list = await page(`${WORKSPACE}/keys?state=active&unused=never`)
  expect(list).toContain('1 key matches')
  expect(list).toContain('left unused')
})

test('an integrator finds by the request id why a request was rejected', async () => {
  const { report, page, visit, keyId } = await started()
  await report([], { refusals: [refusal(keyId, 'r-1'), refusal(keyId, 'r-2', 'rate_limited')] })
  const found = await page(`${WORKSPACE}/refusals?request=+r-1+`)
  expect(found).toContain('1 rejection with this request id')
  expect(found).toContain('The path names another workspace than the one of the key other_workspace')
  expect(found).toMatch(
    /Code and reason not_found .* Route files Key build .* wsk_…\w{4} Request id r-1 Client 192\.0\.2\.0\/24/,
  )
  expect(found).not.toContain('r-2')
  expect(await page(`${WORKSPACE}/refusals`)).toMatch(/r-1.*r-2|r-2.*r-1/)
  const none = await visit(`${WORKSPACE}/refusals?request=${encodeURIComponent('"><i>')}`)
  expect(none.text).toContain('No rejection with this request id')
  expect(none.markup).not.toContain('"><i>')
})

test('the list of rejections says when gateways left some out, and shows 200 at most', async () => {
  const { report, page, visit, keyId } = await started()
  await report([], { refusals: [refusal(keyId, 'r-0')] })
  expect(await page(`${WORKSPACE}/refusals`)).not.toContain('not complete')
  for (const round of [1, 2]) {
    const refusals = Array.from({ length: 150 }, (_, index) => refusal(keyId, `r-${round}-${index}`))
    await report([], { refusals, omittedRefusals: [{ workspaceId: 'ws_1', count: 4 }] })
  }
  const { text, markup } = await visit(`${WORKSPACE}/refusals`)
  expect(text).toContain('This list is not complete')
  expect(markup.match(/<th scope="row">/g)).toHaveLength(200)
})

test('a key pasted as a request id is not kept in the URL', async () => {
  const { ada } = await started()
  const { way } = await ada.browser.visit(`${WORKSPACE}/refusals?request=wsk_${'A'.repeat(54)}`)
  expect(way.at(-1)).toMatch(/\/find-key$/)
})

test('only an administrator sees the usage of all workspaces, and a person that of their workspaces alone', async () => {
  const { report, issue, page, visit, signedIn, ada } = await started()
  const other = await issue('of another', 'ws_3')
  await report([{ count: 3 }, { count: 8, keyId: other }, { count: 1, keyId: other, code: 'key_expired' }])
  const grace = await signedIn({ sub: 'grace', name: 'Grace', workspaces: [], roles: ['postern-admin'] })
  expect(await page('/usage', grace)).toMatch(/Workspace Served Not served ws_3 8 1 ws_1 3 0/)
  for (const path of ['/usage', '/workspaces/ws_3/usage', '/workspaces/ws_3/refusals']) {
    expect([path, (await visit(path, ada)).status]).toEqual([path, 404])
  }
})

test('without refusals the page of rejections says so', async () => {
  const { page } = await started({ keepsRefusals: false })
  expect(await page(`${WORKSPACE}/refusals`)).toContain(
    'Rejections are not kept: the setting refusals.enabled of this console is false.',
  )
})

test('without counts the pages say so, and are no errors', async () => {
  const { visit, keyPath, signedIn } = await started({ keepsUsage: false })
  const { status, text } = await visit(keyPath)
  expect([status, text]).toEqual([
    200,
    expect.stringContaining('Requests are not counted: the setting usage.enabled of this console is false.'),
  ])
  const grace = await signedIn({ sub: 'grace', name: 'Grace', workspaces: [], roles: ['postern-admin'] })
  for (const path of [`${WORKSPACE}/usage`, `${WORKSPACE}/refusals`, '/usage']) {
    const shown = await visit(path, grace)
    expect([shown.status, shown.text]).toEqual([200, expect.stringContaining('Requests are not counted')])
  }
  expect((await visit(`${WORKSPACE}/usage`, grace)).text).toContain('Unused keys')
  for (const path of ['/revoke', '/rotate']) {
    expect((await visit(keyPath + path)).text).not.toContain('Requests since')
  }
})

test('administrators see the rejections of all workspaces, find one by its request id and filter by code', async () => {
  const { report, issue, page, visit, signedIn, keyId } = await started()
  const other = await issue('importer', 'ws_9')
  const root = await signedIn({ sub: 'root', name: 'Root', workspaces: [], roles: ['postern-admin'] })
  await report([], {
    refusals: [
      refusal(keyId, 'r-1', 'rate_limited'),
      refusal(other, 'r-2'),
      refusal(other, 'r-3', 'key_expired'),
    ],
  })
  const all = await visit('/refusals', root)
  expect(all.text).toContain('Rejections of all workspaces')
  expect(all.text).toMatch(/ws_1.*rate_limited|rate_limited.*ws_1/)
  expect(all.markup).toContain('href="/workspaces/ws_9/refusals"')
  for (const id of ['r-1', 'r-2', 'r-3']) expect(all.text).toContain(id)
  const byCode = await page('/refusals?code=key_expired', root)
  expect([
    byCode.includes('r-3'),
    byCode.includes('r-1'),
    byCode.includes('1 rejection with this code'),
  ]).toEqual([true, false, true])
  const byId = await page('/refusals?request=+r-2&code=not_found', root)
  expect([
    byId.includes('importer'),
    byId.includes('1 rejection with this request id and this code'),
  ]).toEqual([true, true])
  expect(await page('/refusals?request=r-2&code=key_expired', root)).toContain(
    'No rejection with this request id',
  )
  expect(await page('/refusals?code=internal_error', root)).toContain('No rejection with this code')
  expect(await page('/refusals?code=nonsense', root)).toContain('r-1')
  const { way } = await root.browser.visit(`/refusals?request=wsk_${'A'.repeat(54)}`)
  expect(way.at(-1)).toMatch(/\/find-key$/)
  expect((await visit('/workspaces', root)).markup).toContain('href="/refusals"')
})

test('who is no administrator sees no rejections of all workspaces, nor a link to them', async () => {
  const { visit } = await started()
  expect((await visit('/refusals')).status).toBe(403)
  expect((await visit(WORKSPACE)).markup).not.toContain('href="/refusals"')
})

test('rejections of all workspaces are on several pages, and a filter goes along', async () => {
  const { report, visit, signedIn, keyId } = await started()
  const root = await signedIn({ sub: 'root', name: 'Root', workspaces: [], roles: ['postern-admin'] })
  const refusals = Array.from({ length: 60 }, (_, index) => refusal(keyId, `r-${index}`, 'rate_limited'))
  await report([], { refusals })
  const first = await visit('/refusals?code=rate_limited', root)
  const next = /href="([^"]*cursor=[^"]*)"/.exec(first.markup)?.[1]?.replaceAll('&amp;', '&') ?? ''
  expect(next).toContain('code=rate_limited')
  const second = await visit(next, root)
  const idsIn = (markup: string) => [...markup.matchAll(/>(r-\d+)</g)].map(([, id]) => id)
  expect([idsIn(first.markup).length, idsIn(second.markup).length]).toEqual([50, 10])
  expect(new Set([...idsIn(first.markup), ...idsIn(second.markup)]).size).toBe(60)
  expect(second.text).toContain('Newest rejections')
  expect(second.text).not.toContain('Older rejections')
  expect((await visit('/refusals?cursor=nonsense', root)).status).toBe(200)
})
