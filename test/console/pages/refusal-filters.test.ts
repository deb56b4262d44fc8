import { beforeEach, expect, test } from 'vitest'
import { BrowserDouble, unescaped } from '../../support/browser-double.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'

const REFUSALS = '/workspaces/ws_1/refusals'
const MINUTE_MS = 60_000

let world: Awaited<ReturnType<typeof startSignIn>>
let clock: ManualClock
let ada: SignedIn
let sequence: number
beforeEach(async () => {
  clock = new ManualClock()
  sequence = 0
  const oidc = { administratorClaim: 'roles', administratorValue: 'admin' }
  world = await startSignIn({ parts: { clock }, signIn: { oidc } })
  ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1', 'ws_2'] })
})

async function issue(name: string, workspaceId = 'ws_1'): Promise<string> {
  const key = { name, scopes: ['files:read'] }
  return (await world.send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, key)).body.key.id
}
/** Reports a rejection, a minute after the one before it. */
async function reject(keyId: string, requestId: string, code = 'rate_limited'): Promise<void> {
  clock.advance(MINUTE_MS)
  const reason = code === 'not_found' ? 'other_workspace' : code
  const refusal = { keyId, requestId, code, reason, at: clock.wallMs(), route: 'files' }
  const refusals = [{ ...refusal, address: '192.0.2.0/24' }]
  const report = { gateway: 'gateway-1.a1b2', sequence: ++sequence, used: {}, counts: [], refusals }
  expect((await world.send('POST', '/internal/v1/usage', report)).body).toEqual({})
}
const filtered = (query: Record<string, string>) => `${REFUSALS}?${new URLSearchParams(query)}`
/** Request ids of the lines on the page. */
const shown = (text: string) =>
  [...text.matchAll(/<dt>Request id<\/dt><dd><code[^>]*>([^<]*)</g)].map(([, id]) => id)
const idsOf = async (query: Record<string, string>) => shown((await ada.browser.visit(filtered(query))).text)
const minute = (ms: number) => new Date(ms).toISOString().slice(0, 16)
const file = (format: string, query: Record<string, string> = {}, path = REFUSALS) =>
  ada.browser.send('GET', `${path}/entries.${format}?${new URLSearchParams(query)}`)

test('rejections are filtered by request, key, code and time, and by all of them together', async () => {
  const [first, second] = [await issue('first'), await issue('second')]
  await reject(first, 'r1')
  await reject(second, 'r2', 'not_found')
  await reject(first, 'r3', 'not_found')
  const lastAtMs = clock.wallMs()
  expect(await idsOf({})).toEqual(['r3', 'r2', 'r1'])
  expect(await idsOf({ keyId: first })).toEqual(['r3', 'r1'])
  expect(await idsOf({ code: 'not_found' })).toEqual(['r3', 'r2'])
  expect(await idsOf({ request: ' r2 ' })).toEqual(['r2'])
  expect(await idsOf({ from: minute(lastAtMs) })).toEqual(['r3'])
  expect(await idsOf({ to: minute(lastAtMs), from: minute(lastAtMs - MINUTE_MS) })).toEqual(['r2'])
  const all = { keyId: first, code: 'rate_limited', request: 'r1', from: '2026-01-01T00:00' }
  expect(await idsOf(all)).toEqual(['r1'])
  const none = await ada.browser.visit(filtered({ ...all, code: 'not_found' }))
  expect(none.text).toContain('No rejection matches')
  expect(await idsOf({ keyId: '', code: '', request: '', from: '', to: '' })).toHaveLength(3)
})

test('the form shows the filter of the address, and pages and files keep it', async () => {
  const [id, other] = [await issue('kept'), await issue('other')]
  await reject(other, 'other')
  for (let count = 0; count < 53; count++) await reject(id, `r${count}`)
  const query = { keyId: id, from: '2026-01-01T00:00' }
  const first = await ada.browser.visit(filtered(query))
  expect(first.text).toContain(`value="${id}"`)
  expect(first.text).toContain('value="2026-01-01T00:00"')
  expect(shown(first.text)).toHaveLength(50)
  const older = `${REFUSALS}?keyId=${id}&from=2026-01-01T00%3A00&cursor=`
  const last = await ada.browser.visit(BrowserDouble.linkIn(first, older))
  expect(shown(last.text)).toEqual(['r2', 'r1', 'r0'])
  expect(BrowserDouble.linkIn(last, `${REFUSALS}?keyId=${id}&from=`)).toBe(filtered(query))
  expect(last.text).not.toContain('Older rejections')
  const { text } = await ada.browser.visit(BrowserDouble.linkIn(first, `${REFUSALS}/entries.csv?`))
  expect(text.split('\r\n')).toHaveLength(55)
  expect(text).not.toContain('other')
})

test('the page of a key leads to its own rejections, and these back to the key, also if there are none', async () => {
  const [id, other] = [await issue('mine'), await issue('other')]
  await reject(other, 'of-another')
  const path = `/workspaces/ws_1/keys/${id}`
  for (const ids of [[], ['r1']]) {
    for (const requestId of ids) await reject(id, requestId)
    const key = await ada.browser.visit(path)
    const own = await ada.browser.visit(BrowserDouble.linkIn(key, `${REFUSALS}?keyId=`))
    expect(shown(own.text)).toEqual(ids)
    expect(unescaped(own.text)).toContain(`<p class="back"><a href="${path}">`)
  }
  const elsewhere = await issue('elsewhere', 'ws_2')
  const { text } = await ada.browser.visit(filtered({ keyId: elsewhere }))
  expect(text).not.toContain('class="back"')
})

test('a filter that is wrong is named beside its field, finds nothing and downloads nothing', async () => {
  await reject(await issue('a key'), 'r1')
  const wrong = { request: 'x'.repeat(129), keyId: 'a key', code: 'eaten', from: '2026-02-30T00:00', to: 'x' }
  const { status, text } = await ada.browser.visit(filtered(wrong))
  expect(status).toBe(422)
  expect(text).toContain('5 problems to fix')
  expect(shown(text)).toEqual([])
  const turned = await ada.browser.visit(filtered({ from: '2026-11-02T00:00', to: '2026-11-01T00:00:30' }))
  expect(turned.text).toContain('Enter a time after the first one')
  expect((await file('csv', wrong)).status).toBe(400)
})

test('rejections of another workspace are not found by the id of its key, and others cannot download them', async () => {
  const id = await issue('elsewhere', 'ws_2')
  await reject(id, 'r1')
  expect(await idsOf({ keyId: id })).toEqual([])
  expect((await file('ndjson', { keyId: id })).text).toBe('')
  const eve = await world.signedIn({ sub: 'eve', name: 'Eve', workspaces: ['ws_3'] })
  for (const path of [REFUSALS, `${REFUSALS}/entries.csv`, `${REFUSALS}/entries.ndjson`]) {
    expect((await eve.browser.visit(path)).status).toBe(404)
  }
  expect((await world.browser().visit(`${REFUSALS}/entries.csv`)).url).toContain('/sign-in')
})

test('what is filtered is downloaded as NDJSON, a rejection a line as the admin API has it', async () => {
  const id = await issue('in the file')
  for (const requestId of ['r1', 'r2']) await reject(id, requestId)
  const { body } = await ada.call('GET', '/workspaces/ws_1/refusals?requestId=r1')
  const one = await file('ndjson', { request: 'r1' })
  expect(one.headers['content-type']).toBe('application/x-ndjson; charset=utf-8')
  expect(one.headers['content-disposition']).toBe('attachment; filename="rejections-ws_1.ndjson"')
  expect(one.text).toBe(`${JSON.stringify(body.refusals[0])}\n`)
  expect((await file('ndjson')).text.trim().split('\n')).toHaveLength(2)
})

test('in the CSV no cell is a formula for a spreadsheet', async () => {
  const id = await issue('in the file')
  for (const requestId of ['-2-3', 'r1']) await reject(id, requestId, 'not_found')
  const { headers, text } = await file('csv')
  expect(headers['content-type']).toContain('text/csv')
  expect(headers['content-disposition']).toBe('attachment; filename="rejections-ws_1.csv"')
  const [head, ...lines] = text.split('\r\n')
  expect(head).toBe('at,code,reason,workspaceId,keyId,route,requestId,address')
  expect(lines.map(line => line.split(',').slice(1))).toEqual([
    ['not_found', 'other_workspace', 'ws_1', id, 'files', 'r1', '192.0.2.0/24'],
    ['not_found', 'other_workspace', 'ws_1', id, 'files', "'-2-3", '192.0.2.0/24'],
    [],
  ])
})

test('a key that is pasted in place of an id leads to the page that finds keys, and is in no address', async () => {
  for (const field of ['keyId', 'request']) {
    const { url, way } = await ada.browser.visit(filtered({ [field]: `wsk_${'A'.repeat(54)}` }))
    expect(new URL(url).pathname).toBe('/find-key')
    expect(way.slice(1).join()).not.toContain('AAAA')
  }
})

test('an administrator filters and downloads the rejections of all workspaces; others cannot', async () => {
  const root = await world.signedIn({ sub: 'root', name: 'Root', workspaces: [], roles: ['admin'] })
  const [here, there] = [await issue('here'), await issue('there', 'ws_2')]
  await reject(here, 'r1')
  await reject(there, 'r2')
  const read = async (query = '') => shown((await root.browser.visit(`/refusals${query}`)).text)
  expect(await read()).toEqual(['r2', 'r1'])
  expect(await read(`?keyId=${there}`)).toEqual(['r2'])
  expect(await read(`?to=${encodeURIComponent(minute(clock.wallMs()))}`)).toEqual(['r1'])
  const csv = await root.browser.send('GET', `/refusals/entries.csv?keyId=${here}`)
  expect(csv.headers['content-disposition']).toBe('attachment; filename="rejections.csv"')
  expect(csv.text).toContain(',ws_1,')
  expect(csv.text).not.toContain(',ws_2,')
  for (const path of ['/refusals', '/refusals/entries.csv', '/refusals/entries.ndjson']) {
    expect([path, (await ada.browser.visit(path)).status]).toEqual([path, 403])
  }
})

test('without refusals there is no file of them', async () => {
  world = await startSignIn({ keepsRefusals: false })
  ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  expect((await ada.browser.visit(REFUSALS)).text).not.toContain('Download')
  expect((await ada.browser.visit(`${REFUSALS}/entries.csv`)).status).toBe(404)
})
