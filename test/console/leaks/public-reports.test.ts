import { createHmac, randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createTokenHandler } from '../../../src/console/leaks/operations.ts'
import { importSigningSecret, mintSecret } from '../../../src/domain/key/secret.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { SIGNING_SECRET, startConsole } from '../../support/console.ts'
import { metricValue } from '../../support/metric-value.ts'
import { startSignIn } from '../../support/signed-in.ts'

const PLACE = 'https://gist.github.com/octocat/1234'
const LEAKS = { enabled: true }

async function startReceiving(leaks: { action?: 'revoke' | 'report'; reportsPerMinute?: number } = {}) {
  const running = await startConsole({ leaks: { ...LEAKS, ...leaks } })
  const issue = async () => {
    const body = { name: 'CI', scopes: ['files:read'] }
    const { key, secret } = (await running.send('POST', '/admin/v1/workspaces/ws_1/keys', body)).body
    return { id: String(key.id), secret: String(secret) }
  }
  const report = async (body: object, from: object = {}) => {
    const headers = { 'content-type': 'application/json', 'x-request-id': 'r1' }
    const sent = {
      method: 'POST',
      url: '/leaks/report',
      payload: JSON.stringify(body),
      headers,
      ...from,
    } as const
    const response = await running.app.inject(sent)
    return { status: response.statusCode, text: response.payload, headers: response.headers }
  }
  return { ...running, issue, report }
}

test('who holds a key can end it, and learns that it was one', async () => {
  const { send, issue, report, log, metrics } = await startReceiving()
  const key = await issue()
  // As a person pastes it.
  const first = await report({ token: `Bearer "${key.secret}"\n`, url: PLACE })
  expect([first.status, first.text]).toEqual([200, '{"label":"true_positive"}'])
  expect((await send('GET', `/admin/v1/keys/${key.id}`)).body.key.state).toBe('revoked')
  expect((await report({ token: key.secret, url: PLACE })).text).toBe(first.text)
  const entries = JSON.parse((await send('GET', `/admin/v1/audit?keyId=${key.id}`)).text).entries
  expect(entries.map(({ action }: { action: string }) => action)).toEqual(['key.revoked', 'key.issued'])
  expect(entries[0]).toMatchObject({
    actor: 'leak-report',
    detail: { reason: 'leak', foundAt: PLACE, source: null },
  })
  const lines = log.filter(({ msg }) => msg === 'leak report of a key')
  expect(lines).toMatchObject([{ outcome: 'revoked' }, { outcome: 'known' }])
  for (const line of lines) expect(line['requestId']).toEqual(expect.any(String))
  expect(await metricValue(metrics.leakReports, { reporter: 'public', outcome: 'revoked' })).toBe(1)
  expect(JSON.stringify([entries, log])).not.toContain(key.secret.slice(4, 40))
})

describe('a token that is no key', () => {
  const signed = () => mintSecret('wsk_', randomBytes(32), importSigningSecret(SIGNING_SECRET)).reveal()
  const kinds: Record<string, () => string> = {
    'with a good MAC': signed,
    'with the MAC of another secret': () =>
      mintSecret('wsk_', randomBytes(32), importSigningSecret(randomBytes(32))).reveal(),
    'with one digit changed': () => {
      const key = signed()
      return key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
    },
    'of another form': () => createHmac('sha256', randomBytes(8)).digest('base64'),
    'with the prefix alone': () => 'wsk_',
    'with spaces': () => 'no key at all',
  }

  test('gets the same status, headers and bytes, of each kind, before and after others', async () => {
    const { report, issue } = await startReceiving({ reportsPerMinute: 1000 })
    await issue()
    const seen = new Set<string>()
    for (let round = 0; round < 3; round++) {
      for (const make of Object.values(kinds)) {
        const { date: _, ...headers } = (await report({ token: make() })).headers
        seen.add(JSON.stringify([headers, (await report({ token: make(), url: PLACE })).text]))
      }
    }
    expect([...seen]).toEqual([expect.stringContaining('false_positive')])
  })

  test('costs the same questions to the database, whether or not it has the MAC of a key', async () => {
    const { report, repository } = startWatched()
    for (const make of Object.values(kinds)) await report(make())
    expect(repository).toEqual(Object.keys(kinds).map(() => 'findByDigests 1'))
  })
})

/** The token handler over a registry that notes what it is asked. */
function startWatched() {
  const repository: string[] = []
  const noted = new Proxy(
    {},
    {
      get: (_, name) => async (digests: readonly string[]) => {
        repository.push(`${String(name)} ${digests.length}`)
        return new Map()
      },
    },
  )
  // Only what the handler may use for a token that is unknown.
  const registry = { stored: noted } as Parameters<typeof createTokenHandler>[0]['registry']
  const handle = createTokenHandler({ registry, metrics: createMetrics(), action: 'revoke' })
  const caller = { actor: 'leak-report', address: '192.0.2.1', requestId: 'r1' }
  return { repository, report: (token: string) => handle('public', [{ token }], caller) }
}

test('an address may send 60 reports a minute; another address is not affected', async () => {
  const { report, metrics } = await startReceiving()
  const from = (remoteAddress: string) => report({ token: 'x' }, { remoteAddress })
  for (let count = 0; count < 60; count++) expect((await from('192.0.2.1')).status).toBe(200)
  const limited = await from('192.0.2.1')
  expect([limited.status, JSON.parse(limited.text).code]).toEqual([429, 'rate_limited'])
  expect(Number(limited.headers['retry-after'])).toBeGreaterThan(0)
  expect((await from('192.0.2.2')).status).toBe(200)
  expect(await metricValue(metrics.leakReports, { reporter: 'public', outcome: 'limited' })).toBe(1)
})

test.each([
  [{}, 400],
  [{ token: '' }, 400],
  [{ token: 1 }, 400],
  [{ token: 'x', url: 1 }, 400],
  [{ token: 'x', more: 1 }, 400],
  [[], 400],
  [{ token: 'x'.repeat(4097) }, 400],
  [{ token: 'x'.repeat(17_000) }, 413],
])('the body %j is rejected, and not repeated', async (body, status) => {
  const { report } = await startReceiving()
  const answer = await report(body)
  expect(answer.status).toBe(status)
  expect(answer.text).not.toContain('xxx')
})

test('the page of a leaked key shows when and where it was found, as text', async () => {
  const world = await startSignIn({ leaks: { ...LEAKS, action: 'report' } })
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  const { key, secret } = (
    await ada.call('POST', '/workspaces/ws_1/keys', { name: 'CI', scopes: ['files:read'] })
  ).body
  const path = `/workspaces/ws_1/keys/${key.id}`
  const pageOf = async () => (await ada.browser.visit(path)).text
  expect(await pageOf()).not.toContain('Reported as leaked')
  await world.app.inject({
    method: 'POST',
    url: '/leaks/report',
    payload: { token: secret, url: 'javascript:alert(1)//<script>"' },
  })
  const page = await pageOf()
  expect(page).toContain('Reported as leaked')
  expect(page).toContain('javascript:alert(1)//&lt;script&gt;&quot;')
  expect(page).not.toContain('href="javascript')
  expect(page).toContain('Replace it in your clients, then revoke it')
  const audit = (await ada.browser.visit('/workspaces/ws_1/audit')).text
  expect(audit).toContain('Reported as leaked')
  expect(audit).toContain('Leak report')
})
