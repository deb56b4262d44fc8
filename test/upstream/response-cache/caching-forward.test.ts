import { describe, expect, test } from 'vitest'
import { ForwardHere } from '../../support/forward-here.ts'
import { metricValue } from '../../support/metric-value.ts'

const FRESH = { 'cache-control': 'max-age=60', etag: '"7"' }

function start(options: ConstructorParameters<typeof ForwardHere>[0] = {}) {
  const here = new ForwardHere({ isCoalesced: true, maxBytes: 1_000_000, ...options })
  const sent = (index = 0) => {
    const request = here.sent[index]
    if (request === undefined) throw new Error(`Request ${index} was not sent`)
    return request
  }
  const counted = (result: string) => metricValue(here.metrics.coalescedRequests, { result })
  return { here, sent, counted }
}

/** A cache that holds the response to `GET /w/ws_1`. */
async function filled(headers: Record<string, string> = FRESH, options = {}) {
  const parts = start(options)
  parts.here.request()
  await parts.sent().respond('"one"', headers)
  return parts
}
const settled = () => new Promise(resolve => setImmediate(() => setImmediate(resolve)))

test('a cached response is used without a request to the upstream, with its age in whole seconds', async () => {
  const { here, counted } = await filled()
  here.clock.advance(1999)
  const client = here.request()
  await settled()
  expect([client.status, client.body, client.header('age')]).toEqual([200, '"one"', '1'])
  expect(client.request.observation).toMatchObject({
    shared: 'cache',
    source: 'upstream',
    phase: 'streaming',
  })
  expect([here.sent.length, await counted('cache')]).toEqual([1, 1])
})

test('a client that has the response gets a 304', async () => {
  const { here } = await filled()
  const client = here.request({ 'if-none-match': '"7"' })
  await settled()
  expect([client.status, client.body]).toEqual([304, ''])
})

test('it is used until it is stale, to the millisecond', async () => {
  const { here } = await filled()
  here.clock.advance(59_999)
  here.request()
  expect(here.sent).toHaveLength(1)
  here.clock.advance(1)
  here.request()
  expect(here.sent).toHaveLength(2)
})

test('it is not used for another workspace', async () => {
  const { here } = await filled()
  here.request({}, { workspace: 'ws_2' })
  expect(here.sent.map(({ request }) => request.workspaceId)).toEqual(['ws_1', 'ws_2'])
})

test.each([
  ['no-cache', 2],
  ['max-age=0', 2],
  ['min-fresh=61', 2],
  ['max-age=10', 1],
  ['min-fresh=30', 1],
])(
  'a client may want a younger one: after five seconds, with %s, there are %i requests',
  async (wish, count) => {
    const { here } = await filled()
    here.clock.advance(5000)
    here.request({ 'cache-control': wish })
    expect(here.sent).toHaveLength(count)
  },
)

test('with no-store a response is neither taken from the cache nor put into it', async () => {
  const { here, sent } = start()
  here.request({ 'cache-control': 'no-store' })
  await sent().respond('"one"', FRESH)
  here.request()
  expect(here.sent).toHaveLength(2)
})

describe('a stale response', () => {
  test('is revalidated with the gateway’s own validators, for all who wait', async () => {
    const { here, sent, counted } = await filled()
    here.clock.advance(70_000)
    const clients = [
      here.request({ 'if-none-match': '"6"', 'if-modified-since': 'x' }),
      here.request({ 'if-none-match': '"7"' }),
      here.request(),
    ]
    expect(here.sent).toHaveLength(2)
    expect(sent(1).request.headers).toEqual({ 'if-none-match': '"7"' })
    expect(sent(1).head(304, { etag: '"7"', 'cache-control': 'max-age=60' })).toBeNull()
    await settled()
    expect(clients.map(({ status, body }) => `${status} ${body}`)).toEqual(['200 "one"', '304 ', '200 "one"'])
    expect(clients.map(client => client.header('age'))).toEqual([undefined, undefined, undefined])
    expect(clients.map(({ request }) => request.observation.shared)).toEqual(Array(3).fill('revalidated'))
    expect(await counted('revalidated')).toBe(3)
    here.clock.advance(59_999)
    here.request()
    expect(here.sent).toHaveLength(2)
  })

  test('whose 304 names another one is asked for again by each on its own', async () => {
    const { here, sent, counted } = await filled()
    here.clock.advance(70_000)
    const clients = [here.request(), here.request()]
    here.clock.advance(25)
    expect(sent(1).head(304, { etag: '"8"' })).toBeNull()
    expect(here.sent.slice(2).map(({ waitedMs }) => waitedMs)).toEqual([25, 25])
    await sent(2).respond('"two"')
    await sent(3).respond('"three"')
    expect(clients.map(({ body }) => body)).toEqual(['"two"', '"three"'])
    expect(await counted('unshared')).toBe(2)
  })

  test('is replaced by a new one', async () => {
    const { here, sent } = await filled()
    here.clock.advance(70_000)
    const client = here.request()
    await sent(1).respond('"two"', FRESH)
    const next = here.request()
    await settled()
    expect([client.body, next.body, here.sent.length]).toEqual(['"two"', '"two"', 2])
  })

  test('without a validator is asked for anew, with the client’s own validators', async () => {
    const { here, sent } = await filled({ 'cache-control': 'max-age=60' })
    here.clock.advance(70_000)
    here.request({ 'if-none-match': '"6"' })
    here.request({ 'if-none-match': '"5"' })
    expect(here.sent.slice(1).map(({ request }) => request.headers)).toEqual([
      { 'if-none-match': '"6"' },
      { 'if-none-match': '"5"' },
    ])
    expect(sent(1).head(304, { etag: '"6"' })).toBeNull()
  })
})

test('a 304 to a client’s own validators reaches that client', async () => {
  const { here, sent } = start()
  const client = here.request({ 'if-none-match': '"6"' })
  sent().head(304, { etag: '"6"' })
  await settled()
  expect(client.status).toBe(304)
})

test('a reload of the upstream’s settings clears the cache', async () => {
  const { here } = await filled()
  here.reload()
  here.request()
  expect(here.sent).toHaveLength(2)
})

test.each([0, 1_000_000])(
  'a request after a reload joins none that was sent before it, with a cache of %i bytes',
  async maxBytes => {
    const { here, sent } = start({ maxBytes })
    const before = here.request()
    here.reload()
    const after = here.request()
    expect(here.sent).toHaveLength(2)
    await sent(0).respond('"former"', FRESH)
    // The end of the former request leaves the new one open to others.
    const joined = here.request()
    expect(here.sent).toHaveLength(2)
    await sent(1).respond('"new"', FRESH)
    await settled()
    expect([before.body, after.body, joined.body]).toEqual(['"former"', '"new"', '"new"'])
  },
)

test('a cache also works where no setting ever changes', async () => {
  const { here } = await filled(FRESH, { reloads: false })
  here.request()
  expect(here.sent).toHaveLength(1)
})

test('without a capacity responses are shared by those who wait, and not cached', async () => {
  const { here } = await filled(FRESH, { maxBytes: 0 })
  here.request()
  here.request()
  expect(here.sent).toHaveLength(2)
})

test('a route that does not allow it shares nothing', async () => {
  const { here } = await filled(FRESH, { isCoalesced: false })
  here.request()
  here.request()
  expect(here.sent).toHaveLength(3)
})

test('a client that disconnected before causes no request', () => {
  const { here } = start()
  here.request({}, { isGone: true })
  expect(here.sent).toHaveLength(0)
})

test('a request is waiting for the upstream until its response begins', async () => {
  const { here, sent } = start()
  const { observation } = here.request().request
  expect(observation.phase).toBe('waiting')
  await sent().respond('{}')
  expect(observation.phase).toBe('streaming')
})
