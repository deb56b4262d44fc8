import { beforeEach, expect, test } from 'vitest'
import { BrowserDouble, unescaped } from '../../support/browser-double.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'

const AUDIT = '/workspaces/ws_1/audit'

let world: Awaited<ReturnType<typeof startSignIn>>
let clock: ManualClock
let ada: SignedIn
beforeEach(async () => {
  clock = new ManualClock()
  world = await startSignIn({ parts: { clock } })
  ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1', 'ws_2'] })
})

const issue = async (name: string, workspaceId = 'ws_1') => {
  clock.advance(60_000)
  const key = { name, scopes: ['files:read'] }
  return (await world.send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, key)).body.key.id
}
const revoke = async (id: string) => {
  clock.advance(60_000)
  await ada.call('POST', `/keys/${id}/revoke`)
}
const filtered = (query: Record<string, string>) => `${AUDIT}?${new URLSearchParams(query)}`
/** Action and name of each entry on the page. */
const shown = (text: string) =>
  text
    .split('<li><details>')
    .slice(1)
    .map(row => [
      /class="badge [^"]*">([^<]*)</.exec(row)?.[1],
      /class="key-name"[^>]*><bdi>([^<]*)</.exec(row)?.[1],
    ])
const entriesOf = async (query: Record<string, string>) =>
  shown((await ada.browser.visit(filtered(query))).text)
const minute = (ms: number) => new Date(ms).toISOString().slice(0, 16)
const file = (format: string, query: Record<string, string> = {}) =>
  ada.browser.send('GET', `${AUDIT}/entries.${format}?${new URLSearchParams(query)}`)

test('entries are filtered by key, action, actor and time, and by all of them together', async () => {
  const first = await issue('first')
  const second = await issue('second')
  await revoke(first)
  const revokedAtMs = clock.wallMs()
  expect(await entriesOf({ keyId: first })).toEqual([
    ['Revoked', 'first'],
    ['Issued', 'first'],
  ])
  expect(await entriesOf({ action: 'key.issued' })).toEqual([
    ['Issued', 'second'],
    ['Issued', 'first'],
  ])
  expect(await entriesOf({ actor: 'person:ada' })).toEqual([['Revoked', 'first']])
  expect(await entriesOf({ from: minute(revokedAtMs) })).toEqual([['Revoked', 'first']])
  expect(await entriesOf({ to: minute(revokedAtMs), from: minute(revokedAtMs - 60_000) })).toEqual([
    ['Issued', 'second'],
  ])
  const all = { keyId: second, action: 'key.issued', actor: 'admin-token', from: '2026-01-01T00:00' }
  expect(await entriesOf(all)).toEqual([['Issued', 'second']])
  expect(await entriesOf({ ...all, action: 'key.revoked' })).toEqual([])
  expect((await ada.browser.visit(filtered({ actor: 'person:x' }))).text).toContain('No entry matches')
  expect(await entriesOf({ keyId: '', action: '', actor: '', from: '', to: '' })).toHaveLength(3)
})

test('the form shows the filter of the address, and pages and files keep it', async () => {
  const id = await issue('kept')
  for (let count = 0; count < 26; count++) {
    for (const step of ['suspend', 'resume']) await ada.call('POST', `/keys/${id}/${step}`, {})
  }
  await issue('other')
  const query = { keyId: id, from: '2026-01-01T00:00' }
  const first = await ada.browser.visit(filtered(query))
  expect(first.text).toContain(`value="${id}"`)
  expect(first.text).toContain('value="2026-01-01T00:00"')
  expect(shown(first.text)).toHaveLength(50)
  const older = BrowserDouble.linkIn(first, `${AUDIT}?keyId=${id}&from=2026-01-01T00%3A00&cursor=`)
  const last = await ada.browser.visit(older)
  expect(shown(last.text)).toEqual([
    ['Resumed', 'kept'],
    ['Suspended', 'kept'],
    ['Issued', 'kept'],
  ])
  expect(BrowserDouble.linkIn(last, `${AUDIT}?keyId=${id}&from=`)).toBe(filtered(query))
  expect(last.text).not.toContain('Older entries')
  const csv = BrowserDouble.linkIn(first, `${AUDIT}/entries.csv?`)
  const { text } = await ada.browser.visit(csv)
  expect(text.split('\r\n')).toHaveLength(55)
  expect(text).not.toContain('other')
})

test('the page of a key links to its own entries, and these back to the key', async () => {
  const id = await issue('mine')
  const path = `/workspaces/ws_1/keys/${id}`
  const page = await ada.browser.visit(path)
  const own = await ada.browser.visit(BrowserDouble.linkIn(page, `${AUDIT}?keyId=`))
  expect(shown(own.text)).toEqual([['Issued', 'mine']])
  expect(unescaped(own.text)).toContain(`<p class="back"><a href="${path}">`)
})

test('a filter that is wrong is named beside its field, and finds nothing', async () => {
  await issue('a key')
  const wrong = {
    keyId: 'a key',
    action: 'key.eaten',
    actor: 'x'.repeat(301),
    from: '2026-02-30T00:00',
    to: 'x',
  }
  const { status, text } = await ada.browser.visit(filtered(wrong))
  expect(status).toBe(422)
  expect(text).toContain('5 problems to fix')
  expect(shown(text)).toEqual([])
  const turned = await ada.browser.visit(filtered({ from: '2026-11-02T00:00', to: '2026-11-01T00:00:30' }))
  expect(turned.text).toContain('Enter a time after the first one')
  expect((await file('csv', wrong)).status).toBe(400)
})

test('entries of another workspace are not found by the id of its key, and their files do not exist', async () => {
  const id = await issue('elsewhere', 'ws_2')
  expect(await entriesOf({ keyId: id })).toEqual([])
  expect((await file('ndjson', { keyId: id })).text).toBe('')
  const eve = await world.signedIn({ sub: 'eve', name: 'Eve', workspaces: ['ws_3'] })
  for (const path of [AUDIT, `${AUDIT}/entries.csv`, `${AUDIT}/entries.ndjson`]) {
    expect((await eve.browser.visit(path)).status).toBe(404)
  }
  expect((await world.browser().visit(`${AUDIT}/entries.csv`)).url).toContain('/sign-in')
})

test('what is filtered is downloaded as NDJSON, an entry a line as the admin API has it', async () => {
  const id = await issue('in the file')
  for (let count = 0; count < 30; count++) await issue(`key ${count}`)
  const { body } = await ada.call('GET', `/audit?keyId=${id}`)
  const one = await file('ndjson', { keyId: id })
  expect(one.headers['content-type']).toBe('application/x-ndjson; charset=utf-8')
  expect(one.headers['content-disposition']).toBe('attachment; filename="audit-ws_1.ndjson"')
  expect(one.text).toBe(`${JSON.stringify(body.entries[0])}\n`)
  expect((await file('ndjson')).text.trim().split('\n')).toHaveLength(31)
})

test('in the CSV no cell is a formula for a spreadsheet, and quotes and commas stay in their cell', async () => {
  const names = ['=1+1', '+1', '-1', '@SUM(A1)', 'a "quoted", name', 'plain']
  for (const name of names) await issue(name)
  const { headers, text } = await file('csv', { action: 'key.issued' })
  expect(headers['content-type']).toContain('text/csv')
  expect(headers['content-disposition']).toBe('attachment; filename="audit-ws_1.csv"')
  const [head, ...lines] = text.split('\r\n')
  expect(head).toBe('at,action,keyId,name,actor,by,address,workspaceId,id,detail')
  const cells = lines.map(
    line => /^[^,]*,key\.issued,key_\w*,("(?:[^"]|"")*"|[^,]*),admin-token,,127/.exec(line)?.[1],
  )
  expect(cells).toEqual(['plain', '"a ""quoted"", name"', "'@SUM(A1)", "'-1", "'+1", "'=1+1", undefined])
})

test('a display name of a person is no formula either', async () => {
  const eve = await world.signedIn({ sub: 'eve', name: '=cmd|x', workspaces: ['ws_1'] })
  await eve.call('POST', '/workspaces/ws_1/keys', { name: 'by eve', scopes: ['files:read'] })
  expect((await file('csv')).text).toContain(",person:eve,'=cmd|x,")
})

test('a key that is pasted in place of an id leads to the page that finds keys, and is in no address', async () => {
  for (const field of ['keyId', 'actor']) {
    const { url, way } = await ada.browser.visit(filtered({ [field]: `wsk_${'A'.repeat(54)}` }))
    expect(new URL(url).pathname).toBe('/find-key')
    expect(way.slice(1).join()).not.toContain('AAAA')
  }
})

test('a shared address is kept for after signing in, but for what could be a secret', async () => {
  const query = { action: 'key.issued', from: '2026-01-01T00:00', actor: 'person:SECRET', keyId: 'SECRET' }
  const { url } = await world.browser().visit(filtered(query))
  expect(new URL(url).searchParams.get('then')).toBe(
    filtered({ action: 'key.issued', from: '2026-01-01T00:00' }),
  )
  const id = await issue('shared')
  const own = await world.browser().visit(filtered({ keyId: id }))
  expect(new URL(own.url).searchParams.get('then')).toBe(filtered({ keyId: id }))
})

test('an administrator reads, filters and downloads the entries of all workspaces; others cannot', async () => {
  const oidc = { administratorClaim: 'roles', administratorValue: 'admin' }
  world = await startSignIn({ signIn: { oidc }, workspaceWebhooks: { enabled: true } })
  const root = await world.signedIn({ sub: 'root', name: 'Root', workspaces: [], roles: ['admin'] })
  ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  await issue('here')
  await issue('there', 'ws_2')
  const hook = { _csrf: root.csrf, url: 'https://hooks.example.com/a-secret-path' }
  await root.browser.post('/workspaces/ws_2/webhook', hook)
  const read = async (query = '') => (await root.browser.visit(`/audit${query}`)).text
  const names = shown(await read()).map(([action, name]) => `${action} ${name ?? ''}`)
  expect(names).toEqual(expect.arrayContaining(['Issued here', 'Issued there', 'Signed in ']))
  expect(shown(await read('?workspace=ws_2&action=key.issued'))).toEqual([['Issued', 'there']])
  const set = await read('?action=webhook.set')
  expect(set).toMatch(/Webhook set<\/span><\/span>\s*<span class="about"><bdi>https:\/\/hooks\.example\.com</)
  expect(set).not.toContain('a-secret-path')
  expect((await root.browser.visit('/audit?workspace=a+b')).status).toBe(422)
  const csv = await root.browser.send('GET', '/audit/entries.csv?workspace=ws_2')
  expect(csv.headers['content-disposition']).toBe('attachment; filename="audit.csv"')
  expect(csv.text).toContain('there')
  expect(csv.text).not.toContain(',here,')
  for (const path of ['/audit', '/audit/entries.csv', '/audit/entries.ndjson']) {
    expect([path, (await ada.browser.visit(path)).status]).toEqual([path, 403])
  }
})
