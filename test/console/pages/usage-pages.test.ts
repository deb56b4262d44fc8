import { expect, test } from 'vitest'
import { BrowserDouble } from '../../support/browser-double.ts'
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

test('the key’s page shows requests of an hour, a day, a week, 30 and 400 days, and other days, by route and code', async () => {
  const { report, page, keyPath, keyId } = await started()
  await report([{ count: 1200 }, { count: 3, code: 'scope_missing', route: 'workspace' }], {
    used: { [keyId]: Date.now() },
  })
  const today = new Date().toISOString().slice(0, 10)
  const bars = {
    ...{
      '1h': '5 minutes',
      '24h': 'an hour',
      '7d': '6 hours',
      '30d': 'a day',
      '400d': 'a week',
      nonsense: 'an hour',
    },
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
const RECENT = /Requests since (?:\d+ \w+ \d{4}, )?\d\d:00 UTC ?: 42 served, 2 not served/

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
  expect(found).toContain('The path names another workspace than the one of the key other_workspace')
  expect(found).toMatch(
    /UTC not_found build .* wsk_…\w{4} The path .* Key build .* Code not_found Reason .* Route files Request id r-1 Copy Client 192\.0\.2\.0\/24/,
  )
  expect(found).not.toContain('r-2')
  expect(await page(`${WORKSPACE}/refusals`)).toMatch(/r-1.*r-2|r-2.*r-1/)
  const none = await visit(`${WORKSPACE}/refusals?request=${encodeURIComponent('"><i>')}`)
  expect(none.text).toContain('No rejection with this request id')
  expect(none.text).toContain('its path may not exist')
  expect(none.markup).not.toContain('"><i>')
})

test('the list of rejections says when gateways left some out, and shows 200 at most, fifty on a page', async () => {
  const { report, page, ada, keyId } = await started()
  await report([], { refusals: [refusal(keyId, 'r-0')] })
  expect(await page(`${WORKSPACE}/refusals`)).not.toContain('not complete')
  for (const round of [1, 2]) {
    const refusals = Array.from({ length: 150 }, (_, index) => refusal(keyId, `r-${round}-${index}`))
    await report([], { refusals, omittedRefusals: [{ workspaceId: 'ws_1', count: 4 }] })
  }
  let shown = await ada.browser.visit(`${WORKSPACE}/refusals`)
  expect(shown.text).toContain('This list is not complete')
  const sizes = [shown.text.match(/<li><details>/g)?.length]
  while (shown.text.includes('Older rejections')) {
    shown = await ada.browser.visit(BrowserDouble.linkIn(shown, `${WORKSPACE}/refusals?cursor=`))
    sizes.push(shown.text.match(/<li><details>/g)?.length)
  }
  expect(sizes).toEqual([50, 50, 50, 50])
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

test('limits that are nearly used up are shown fifty on a page, the fullest first, and each page leads on and back', async () => {
  const daily = { name: 'daily', per: 'key', requests: 1000, windowSeconds: 86_400 } as const
  const { ada, issue, keyId, report } = await started({ limits: { policies: [daily] } })
  const keys = [keyId]
  while (keys.length < 51) keys.push(await issue(`key ${keys.length}`))
  const window = { policy: 'daily', plan: null, windowSeconds: 86_400, requests: 1000 }
  const limits = keys.map((keyId, index) => ({
    ...{ ...window, keyId, used: 900 + index, endsAt: Date.now() + 3_600_000 },
  }))
  await report([], { limits })
  const { hint } = (await ada.call('GET', `/keys/${keys[50]}`)).body.key
  const path = `${WORKSPACE}/limits`
  const links = (text: string) => ['First page', 'Next page'].filter(link => text.includes(`>${link}</a>`))
  const rows = (text: string) =>
    text
      .split('<th scope="row">')
      .slice(1)
      .map(row => row.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' '))

  const first = await ada.browser.visit(path)
  expect(rows(first.text)).toHaveLength(50)
  expect(rows(first.text)[0]).toContain(
    `key 50 ${hint} Plan none Policy daily Used 950 of 1,000 (95 %) Left 50`,
  )
  expect(links(first.text)).toEqual(['Next page'])
  const last = await ada.browser.visit(BrowserDouble.linkIn(first, `${path}?cursor=`))
  expect(rows(last.text)).toEqual([expect.stringMatching(/Used 90\d of 1,000 \(90 %\)/)])
  expect(links(last.text)).toEqual(['First page'])
  const beyond = await ada.browser.visit(`${path}?cursor=80.${'A'.repeat(22)}`)
  expect(beyond.text).toContain('There are no more.')
  expect(links(beyond.text)).toEqual(['First page'])
  const other = await ada.browser.visit('/workspaces/ws_2/limits')
  expect(other.text).toContain('No limit is nearly used up.')
  expect(links(other.text)).toEqual([])
})
