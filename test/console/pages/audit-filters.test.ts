import { beforeEach, expect, test } from 'vitest'
import {
  describeFilteredList,
  type ListWorld,
  minuteOf,
  startFilteredList,
} from './filtered-list.contract.ts'

/** Action and name of each entry on the page. */
const shown = (text: string) =>
  text
    .split('<li><details>')
    .slice(1)
    .map(row => [
      /class="badge [^"]*">([^<]*)</.exec(row)?.[1],
      /class="key-name"[^>]*><bdi>([^<]*)</.exec(row)?.[1],
    ])
const LIST = { path: 'audit', shown } as const

let steps = 0
describeFilteredList({
  ...LIST,
  call: '/audit',
  field: 'entries',
  older: 'Older entries',
  file: 'audit',
  wrong: {
    keyId: 'a key',
    action: 'key.eaten',
    actor: 'x'.repeat(301),
    from: '2026-02-30T00:00',
    to: 'x',
  },
  pasted: ['keyId', 'actor'],
  listsIssuing: true,
  async addLine({ ada }, keyId) {
    const { status } = await ada.call(
      'POST',
      `/keys/${keyId}/${steps++ % 2 === 0 ? 'suspend' : 'resume'}`,
      {},
    )
    expect(status).toBe(200)
  },
})

let world: ListWorld
beforeEach(async () => {
  steps = 0
  world = await startFilteredList(LIST)
})

test('entries are filtered by key, action, actor and time, and by all of them together', async () => {
  const { ada, clock, issue, linesOf, filtered } = world
  const first = await issue('first')
  const second = await issue('second')
  clock.advance(60_000)
  await ada.call('POST', `/keys/${first}/revoke`)
  const revokedAtMs = clock.wallMs()
  expect(await linesOf({ keyId: first })).toEqual([
    ['Revoked', 'first'],
    ['Issued', 'first'],
  ])
  expect(await linesOf({ action: 'key.issued' })).toEqual([
    ['Issued', 'second'],
    ['Issued', 'first'],
  ])
  expect(await linesOf({ actor: 'person:ada' })).toEqual([['Revoked', 'first']])
  expect(await linesOf({ from: minuteOf(revokedAtMs) })).toEqual([['Revoked', 'first']])
  expect(await linesOf({ to: minuteOf(revokedAtMs), from: minuteOf(revokedAtMs - 60_000) })).toEqual([
    ['Issued', 'second'],
  ])
  const all = { keyId: second, action: 'key.issued', actor: 'admin-token', from: '2026-01-01T00:00' }
  expect(await linesOf(all)).toEqual([['Issued', 'second']])
  expect(await linesOf({ ...all, action: 'key.revoked' })).toEqual([])
  expect((await ada.browser.visit(filtered({ actor: 'person:x' }))).text).toContain('No entry matches')
  expect(await linesOf({ keyId: '', action: '', actor: '', from: '', to: '' })).toHaveLength(3)
})

test('in the CSV no cell is a formula for a spreadsheet, and quotes and commas stay in their cell', async () => {
  const names = ['=1+1', '+1', '-1', '@SUM(A1)', '＝1+1', 'a "quoted", name', 'plain']
  for (const name of names) await world.issue(name)
  const { headers, text } = await world.download('csv', { action: 'key.issued' })
  expect(headers['content-type']).toContain('text/csv')
  expect(headers['content-disposition']).toBe('attachment; filename="audit-ws_1.csv"')
  const [head, ...lines] = text.split('\r\n')
  // With the mark by which Excel knows UTF-8.
  expect(head).toBe('\u{feff}at,action,keyId,name,actor,by,address,workspaceId,id,detail')
  const cells = lines.map(
    line => /^[^,]*,key\.issued,key_\w*,("(?:[^"]|"")*"|[^,]*),admin-token,,127/.exec(line)?.[1],
  )
  expect(cells).toEqual([
    ...['plain', '"a ""quoted"", name"', "'＝1+1", "'@SUM(A1)", "'-1", "'+1", "'=1+1"],
    undefined,
  ])
})

test('a display name of a person is no formula either', async () => {
  const eve = await world.signedIn({ sub: 'eve', name: '=cmd|x', workspaces: ['ws_1'] })
  await eve.call('POST', '/workspaces/ws_1/keys', { name: 'by eve', scopes: ['files:read'] })
  expect((await world.download('csv')).text).toContain(",person:eve,'=cmd|x,")
})

test('a shared address is kept for after signing in, but for what could be a secret', async () => {
  const { browser, filtered, issue } = world
  const query = { action: 'key.issued', from: '2026-01-01T00:00', actor: 'person:SECRET', keyId: 'SECRET' }
  const { url } = await browser().visit(filtered(query))
  expect(new URL(url).searchParams.get('then')).toBe(
    filtered({ action: 'key.issued', from: '2026-01-01T00:00' }),
  )
  const id = await issue('shared')
  const own = await browser().visit(filtered({ keyId: id }))
  expect(new URL(own.url).searchParams.get('then')).toBe(filtered({ keyId: id }))
})

test('an administrator reads the entries of no workspace too, and those of one that the filter names', async () => {
  const { issue } = world
  const root = await world.root()
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
  expect(csv.text).toContain('there')
  expect(csv.text).not.toContain(',here,')
})
