import { expect, test } from 'vitest'
import { digestKey } from '../../../src/domain/key/secret.ts'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'

const UNKNOWN = `wsk_${'A'.repeat(54)}`

async function start() {
  const world = await startSignIn()
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] })
  const issue = async (workspaceId: string) => {
    const asked = { name: `of <i>${workspaceId}`, scopes: ['files:read'] }
    return (await world.send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, asked)).body
  }
  return { ...world, ada, issue }
}
const find = ({ browser, csrf }: SignedIn, fields: Record<string, string>) =>
  browser.post('/find-key', { _csrf: csrf, key: '', digest: '', ...fields })
/** Without what differs from request to request. */
const plain = (text: string) => text.replace(/name="_csrf" value="[^"]*"|data-now="\d+"/g, '')

test('a digest, and without JavaScript the key itself, lead to the key and to its revocation', async () => {
  const { ada, issue, log } = await start()
  const { key, secret } = await issue('ws_1')
  const pasted = [` ${secret}\n`, `Authorization: Bearer ${secret}`, `“${secret}”`, `\u200b\`${secret}\`\r\n`]
  for (const fields of [{ digest: digestKey(secret ?? '') }, ...pasted.map(key => ({ key }))]) {
    const { status, text } = await find(ada, fields)
    expect(status).toBe(200)
    expect(text).toContain('of &lt;i&gt;ws_1')
    for (const path of [key.id, `${key.id}/revoke`]) {
      expect(text).toContain(`/workspaces/ws_1/keys/${path}"`)
    }
    expect(text).not.toContain(secret)
  }
  expect(JSON.stringify(log)).not.toContain(secret)
})

test('a key of a workspace that the person cannot access is answered like an unknown one', async () => {
  const { ada, issue, log } = await start()
  const { key, secret } = await issue('ws_2')
  const hidden = await find(ada, { digest: digestKey(secret ?? '') })
  const unknown = await find(ada, { digest: digestKey(UNKNOWN) })
  expect(hidden.status).toBe(unknown.status)
  expect(plain(hidden.text)).toBe(plain(unknown.text))
  expect(hidden.text).toContain('No such key')
  const pages = log.filter(line => line['operation'] === 'page')
  expect(JSON.stringify(pages)).not.toContain(key.id)
})

test('a pasted key gets into no URL, also if the session has expired or belongs to another tab', async () => {
  const { ada } = await start()
  const stale = await find({ ...ada, csrf: 'of another session' }, { key: UNKNOWN })
  expect([stale.status, stale.headers['location']]).toEqual([303, '/find-key'])
  ada.browser.cookies.clear()
  const expired = await find(ada, { key: UNKNOWN })
  expect(expired.status).toBe(303)
  expect(expired.headers['location']).not.toContain('wsk_')
})

test('a key that was pasted anywhere into the address of a page leads to the page that finds keys', async () => {
  const { ada } = await start()
  const late = encodeURIComponent(`${'of the design team, '.repeat(10)}${UNKNOWN}`)
  for (const address of [
    `/workspaces/ws_1?q=${late}`,
    `/workspaces/ws_1/audit?note=${UNKNOWN}`,
    `/workspaces/ws_1/keys/key_unknown?range=%20${UNKNOWN}`,
  ]) {
    const { status, headers } = await ada.browser.send('GET', address)
    expect([address, status, headers['location']]).toEqual([address, 303, '/find-key'])
  }
})

test('what looks like a key in the answer of a provider, or in a place in a list of keys, leads nowhere else', async () => {
  const { ada, browser } = await start()
  const cursor = `WyJ${UNKNOWN}`
  const list = await ada.browser.send('GET', `/workspaces/ws_1/keys?sort=name&cursor=${cursor}`)
  expect([list.status, list.headers['location']]).toEqual([200, undefined])
  const callback = await browser().send('GET', `/sign-in/callback?code=${UNKNOWN}&state=a`)
  expect([callback.status, callback.text]).toEqual([400, expect.stringContaining('Sign')])
})

test('an empty form is shown again with what is missing', async () => {
  const { ada } = await start()
  const { status, text } = await find(ada, {})
  expect([status, text.includes('Paste the whole key')]).toEqual([422, true])
})
