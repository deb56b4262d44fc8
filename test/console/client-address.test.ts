import { describe, expect, test } from 'vitest'
import { BrowserDouble } from '../support/browser-double.ts'
import { startConsole } from '../support/console.ts'
import { startSignIn } from '../support/signed-in.ts'

/** `inject` comes from 127.0.0.1: that is the proxy here. */
const PROXY = '127.0.0.1'
const CLIENT = '203.0.113.9'
const KEYS = '/admin/v1/workspaces/ws_1/keys'
const ISSUE = { name: 'importer', scopes: ['files:read'] }

/** What the audit log says of a key that was issued with this header. */
async function auditedFrom(trustedProxies: readonly string[], forwardedFor: string): Promise<unknown> {
  const { send } = await startConsole({ signIn: { trustedProxies: [...trustedProxies] } })
  const issued = await send('POST', KEYS, ISSUE, { headers: { 'x-forwarded-for': forwardedFor } })
  expect(issued.status).toBe(201)
  const { body } = await send('GET', '/admin/v1/workspaces/ws_1/audit')
  return body.entries[0]?.detail['from']
}

describe('the audit log records the client’s address', () => {
  test.each([
    ['as a trusted proxy says', [PROXY], CLIENT, CLIENT],
    [
      'by the rightmost address that is not a proxy',
      [PROXY, '10.0.0.0/8'],
      `1.1.1.1, ${CLIENT}, 10.9.8.7`,
      CLIENT,
    ],
    ['not as it says itself in front of the proxy', [PROXY], `1.1.1.1, ${CLIENT}`, CLIENT],
    ['not as an untrusted peer says', [], CLIENT, PROXY],
    ['not by text that is no address', [PROXY], '<script>, unknown', PROXY],
    ['without the port of the client', [PROXY], `${CLIENT}:51234`, CLIENT],
    ['behind a proxy that has a port', [PROXY, '10.0.0.0/8'], `${CLIENT}:5, 10.9.8.7:6`, CLIENT],
    ['by an IPv4 address in its own form', [PROXY], `::ffff:${CLIENT}`, CLIENT],
  ])('%s', async (_, trusted, said, expected) => {
    expect(await auditedFrom(trusted, said)).toBe(expected)
  })

  test('also for changes made on a page with a browser session', async () => {
    const { browser, provider, send } = await startSignIn({ signIn: { trustedProxies: [PROXY] } })
    provider.person = { sub: 'ada', name: 'Ada', workspaces: ['ws_1'] }
    const ada = browser()
    await ada.visit('/sign-in/start')
    const form = await ada.visit('/workspaces/ws_1/keys/new')
    const once = /name="once" value="([^"]*)"/.exec(form.text)?.[1] ?? ''
    const fields = { name: 'importer', scopes: 'files:read', expiry: '30', date: '', once }
    const _csrf = BrowserDouble.csrfTokenIn(form)
    const sent = await ada.post(
      '/workspaces/ws_1/keys/new',
      { ...fields, _csrf },
      { 'x-forwarded-for': CLIENT },
    )
    expect(sent.status).toBe(200)
    const { body } = await send('GET', '/admin/v1/workspaces/ws_1/audit')
    expect(body.entries).toMatchObject([{ actor: 'person:ada', detail: { from: CLIENT } }])
  })
})
