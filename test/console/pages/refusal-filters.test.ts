import { beforeEach, expect, test } from 'vitest'
import { BrowserDouble, unescaped } from '../../support/browser-double.ts'
import { startSignIn } from '../../support/signed-in.ts'
import {
  describeFilteredList,
  type ListWorld,
  minuteOf,
  startFilteredList,
} from './filtered-list.contract.ts'

const MINUTE_MS = 60_000

/** Request ids of the lines on the page. */
const shown = (text: string) =>
  [...text.matchAll(/<dt>Request id<\/dt><dd><span class="copyable"><code[^>]*>([^<]*)</g)].map(
    ([, id]) => id,
  )
const LIST = { path: 'refusals', shown } as const

let sequence = 0
/** Reports a rejection, a minute after the one before it. */
async function reject(
  { clock, send }: ListWorld,
  keyId: string,
  requestId: string,
  code = 'rate_limited',
): Promise<void> {
  clock.advance(MINUTE_MS)
  const reason = code === 'not_found' ? 'other_workspace' : code
  const refusal = { keyId, requestId, code, reason, at: clock.wallMs(), route: 'files' }
  const refusals = [{ ...refusal, address: '192.0.2.0/24' }]
  const report = { gateway: 'gateway-1.a1b2', sequence: ++sequence, used: {}, counts: [], refusals }
  expect((await send('POST', '/internal/v1/usage', report)).body).toEqual({})
}

describeFilteredList({
  ...LIST,
  call: '/workspaces/ws_1/refusals',
  field: 'refusals',
  older: 'Older rejections',
  file: 'rejections',
  wrong: { request: 'x'.repeat(129), keyId: 'a key', code: 'eaten', from: '2026-02-30T00:00', to: 'x' },
  pasted: ['keyId', 'request'],
  listsIssuing: false,
  addLine: (world, keyId) => reject(world, keyId, `r${sequence}`),
})

let world: ListWorld
beforeEach(async () => {
  sequence = 0
  world = await startFilteredList(LIST)
})

test('rejections are filtered by request, key, code and time, and by all of them together', async () => {
  const { ada, clock, issue, linesOf, filtered } = world
  const [first, second] = [await issue('first'), await issue('second')]
  await reject(world, first, 'r1')
  await reject(world, second, 'r2', 'not_found')
  await reject(world, first, 'r3', 'not_found')
  const lastAtMs = clock.wallMs()
  expect(await linesOf({})).toEqual(['r3', 'r2', 'r1'])
  expect(await linesOf({ keyId: first })).toEqual(['r3', 'r1'])
  expect(await linesOf({ code: 'not_found' })).toEqual(['r3', 'r2'])
  expect(await linesOf({ request: ' r2 ' })).toEqual(['r2'])
  expect(await linesOf({ from: minuteOf(lastAtMs) })).toEqual(['r3'])
  expect(await linesOf({ to: minuteOf(lastAtMs), from: minuteOf(lastAtMs - MINUTE_MS) })).toEqual(['r2'])
  const all = { keyId: first, code: 'rate_limited', request: 'r1', from: '2026-01-01T00:00' }
  expect(await linesOf(all)).toEqual(['r1'])
  const none = await ada.browser.visit(filtered({ ...all, code: 'not_found' }))
  expect(none.text).toContain('No rejection matches')
  expect(await linesOf({ keyId: '', code: '', request: '', from: '', to: '' })).toHaveLength(3)
})

test('the page of a key leads to its rejections, and these back to the key, also if there are none', async () => {
  const { ada, issue, page } = world
  const path = `/workspaces/ws_1/keys/${await issue('mine')}`
  const key = await ada.browser.visit(path)
  const own = await ada.browser.visit(BrowserDouble.linkIn(key, `${page}?keyId=`))
  expect(shown(own.text)).toEqual([])
  expect(unescaped(own.text)).toContain(`<p class="back"><a href="${path}">`)
})

test('in the CSV no cell is a formula for a spreadsheet', async () => {
  const id = await world.issue('in the file')
  for (const requestId of ['-2-3', 'r1']) await reject(world, id, requestId, 'not_found')
  const { headers, text } = await world.download('csv')
  expect(headers['content-type']).toContain('text/csv')
  expect(headers['content-disposition']).toBe('attachment; filename="rejections-ws_1.csv"')
  const [head, ...lines] = text.split('\r\n')
  expect(head).toBe('\u{feff}at,code,reason,workspaceId,keyId,route,requestId,address')
  expect(lines.map(line => line.split(',').slice(1))).toEqual([
    ['not_found', 'other_workspace', 'ws_1', id, 'files', 'r1', '192.0.2.0/24'],
    ['not_found', 'other_workspace', 'ws_1', id, 'files', "'-2-3", '192.0.2.0/24'],
    [],
  ])
})

test('an administrator filters the rejections of all workspaces by time', async () => {
  const root = await world.root()
  const [here, there] = [await world.issue('here'), await world.issue('there', 'ws_2')]
  await reject(world, here, 'r1')
  await reject(world, there, 'r2')
  const read = async (query = '') => shown((await root.browser.visit(`/refusals${query}`)).text)
  expect(await read()).toEqual(['r2', 'r1'])
  expect(await read(`?to=${encodeURIComponent(minuteOf(world.clock.wallMs()))}`)).toEqual(['r1'])
})

test('without refusals there is no file of them', async () => {
  const without = await startSignIn({ keepsRefusals: false })
  const ada = await without.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  expect((await ada.browser.visit(world.page)).text).not.toContain('Download')
  expect((await ada.browser.visit(`${world.page}/entries.csv`)).status).toBe(404)
})
