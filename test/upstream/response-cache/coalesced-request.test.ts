import { describe, expect, test, vi } from 'vitest'
import type { RequestTrace } from '../../../src/observability/request-observation.ts'
import { UpstreamFailure } from '../../../src/upstream/pool/failure.ts'
import { ForwardHere, turn } from '../../support/forward-here.ts'
import { metricValue } from '../../support/metric-value.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const KIB_256 = 256 * 1024

/** Three clients that ask for the same, each 10 ms after the one before. */
function start(options: ConstructorParameters<typeof ForwardHere>[0] = {}) {
  const here = new ForwardHere({ isCoalesced: true, ...options })
  const clients = [1, 2, 3].map(() => {
    here.clock.advance(10)
    return here.request()
  })
  const sent = (index = 0) => {
    const request = here.sent[index]
    if (request === undefined) throw new Error(`Request ${index} was not sent`)
    return request
  }
  const counts = async () => {
    const results = ['upstream', 'joined', 'unshared', 'cache', 'revalidated']
    const values = results.map(result => metricValue(here.metrics.coalescedRequests, { result }))
    return Object.fromEntries((await Promise.all(values)).map((count, index) => [results[index], count]))
  }
  return { here, clients, sent, counts }
}
const NONE = { upstream: 0, joined: 0, unshared: 0, cache: 0, revalidated: 0 }
const seen = (clients: ReturnType<typeof start>['clients']) =>
  clients.map(({ status, body, denied }) => denied ?? `${status} ${body}`)

test('all get one response, and each its own wait', async () => {
  const { here, clients, sent, counts } = start()
  expect(here.sent).toHaveLength(1)
  expect(await counts()).toEqual(NONE)
  here.clock.advance(100)
  await sent().respond('{"a":1}', { etag: '"7"' })
  expect(seen(clients)).toEqual(Array(3).fill('200 {"a":1}'))
  const observations = clients.map(({ request: { observation } }) => observation)
  expect(observations.map(({ upstreamWaitMs }) => upstreamWaitMs)).toEqual([120, 110, 100])
  expect(observations.map(({ shared }) => shared)).toEqual([null, 'joined', 'joined'])
  for (const { request, header } of clients.map(client => ({
    ...client,
    header: client.header.bind(client),
  }))) {
    expect(request.observation).toMatchObject({ source: 'upstream', phase: 'streaming', responseBytes: 7 })
    const names = ['etag', 'x-content-type-options', 'x-request-id', 'content-length', 'cache-control']
    expect(names.map(header)).toEqual(['"7"', 'nosniff', 'req-1', '7', 'private'])
  }
  expect(await counts()).toEqual({ ...NONE, upstream: 1, joined: 2 })
})

test('the trace of the first shows the upstream’s status; the others have no request of their own', async () => {
  const { clients, sent } = start()
  const statuses = clients.map(({ request }) => {
    const recorded: number[] = []
    const unused = { traceId: '', spanId: '', recorded: true, lookedUp() {}, forwarding: () => '', end() {} }
    const trace: RequestTrace = { ...unused, forwarded: status => void recorded.push(status) }
    Object.assign(request.observation, { trace })
    return recorded
  })
  await sent().respond('{}')
  expect(statuses).toEqual([[200], [], []])
})

test('no one joins once the response has begun', async () => {
  const { here, clients, sent } = start()
  const sink = sent().head(200, { ...JSON_TYPE, 'content-length': '2' })
  const late = here.request()
  expect(here.sent).toHaveLength(2)
  sink?.write(Buffer.from('{}'))
  sink?.end()
  await sent(1).respond('"new"')
  // What becomes of the first ones does not concern the later ones.
  const newest = here.request()
  for (const client of clients) await client.disconnect()
  const joined = here.request()
  expect(here.sent).toHaveLength(3)
  await sent(2).respond('"newest"')
  expect(seen([newest, joined])).toEqual(['200 "newest"', '200 "newest"'])
  expect(seen([...clients, late])).toEqual(['200 {}', '200 {}', '200 {}', '200 "new"'])
})

test('a failure is for all, and ends the sharing', async () => {
  const { here, clients, sent, counts } = start()
  here.clock.advance(5)
  sent().fail('connect_timeout')
  expect(seen(clients)).toEqual(Array(3).fill('upstream_timeout'))
  expect(clients.map(({ request }) => request.observation.upstreamWaitMs)).toEqual([25, 15, 5])
  here.request()
  expect(here.sent).toHaveLength(2)
  expect(await counts()).toEqual({ ...NONE, upstream: 1, joined: 2 })
})

test.each([
  ['a 500', 500, {}, 'upstream_error'],
  ['a 500 for one caller', 500, { vary: '*' }, 'upstream_error'],
  ['a 503 for one caller', 503, { vary: '*' }, 'upstream_unavailable'],
  ['a 404', 404, {}, 'upstream_not_found'],
])('%s is a denial for all', (_what, status, headers, reason) => {
  const { clients, sent } = start()
  expect(sent().head(status, headers)).toBeNull()
  expect(seen(clients)).toEqual(Array(3).fill(reason))
  expect(clients.map(({ request }) => request.observation.upstreamStatus)).toEqual([status, status, status])
})

test('a 304 to the validators that they share is for all', async () => {
  const { clients, sent } = start()
  sent().head(304, { etag: '"7"' })
  await turn()
  expect(seen(clients)).toEqual(Array(3).fill('304 '))
})

test('a response that may not be cached is for all who wait, and for no one later', async () => {
  const { here, clients, sent } = start({ maxBytes: 1_000_000 })
  await sent().respond('{}')
  expect(seen(clients)).toEqual(Array(3).fill('200 {}'))
  here.request()
  expect(here.sent).toHaveLength(2)
})

test('a rejection and a response without a body are for all', async () => {
  const rejected = start()
  await rejected.sent().respond('{"code":"c","error":"e"}', { 'retry-after': '3' }, 429)
  expect(seen(rejected.clients)).toEqual(Array(3).fill('429 {"code":"c","error":"e"}'))
  expect(rejected.clients.map(client => client.header('retry-after'))).toEqual(['3', '3', '3'])
  const empty = start()
  expect(empty.sent().head(204, { etag: '"7"' })).toBeNull()
  await turn()
  expect(seen(empty.clients)).toEqual(Array(3).fill('204 '))
  expect(empty.clients.map(client => client.header('content-length'))).toEqual(Array(3).fill(undefined))
})

test('a 205 is for all, with its length', async () => {
  const { clients, sent } = start()
  expect(sent().head(205, { 'content-length': '0' })).toBeNull()
  await turn()
  expect(seen(clients)).toEqual(Array(3).fill('205 '))
  expect(clients.map(client => client.header('content-length'))).toEqual(Array(3).fill('0'))
})

test('a body that ends early is a denial for all: none gets a part of it', () => {
  const { clients, sent } = start()
  const sink = sent().head(200, { ...JSON_TYPE, 'content-length': '9' })
  expect(sink?.write(Buffer.from('{'))).toBe('continue')
  sink?.fail(new UpstreamFailure('truncated'))
  expect(clients.map(({ text, denied }) => [text, denied])).toEqual(Array(3).fill(['', 'upstream_error']))
})

describe('a response for one caller', () => {
  test('goes to the first; the others are forwarded on their own, with the time they have waited', async () => {
    const { here, clients, sent, counts } = start()
    here.clock.advance(100)
    await sent().respond('"first"', { vary: 'x-postern-key-id' })
    expect(here.sent.map(({ waitedMs }) => waitedMs)).toEqual([undefined, 110, 100])
    await sent(1).respond('"second"')
    await sent(2).respond('"third"')
    expect(seen(clients)).toEqual(['200 "first"', '200 "second"', '200 "third"'])
    expect(await counts()).toEqual({ ...NONE, upstream: 1, unshared: 2 })
  })

  test('is aborted if the first disconnects, also while the others wait', async () => {
    const { clients, sent } = start()
    sent().head(200, { ...JSON_TYPE, 'content-length': '9', vary: '*' })
    await clients[0]?.disconnect()
    expect([sent().wasAborted, sent(1).wasAborted]).toEqual([true, false])
  })

  test('is streamed if there is only one', () => {
    const here = new ForwardHere({ isCoalesced: true })
    const client = here.request()
    const sink = here.sent[0]?.head(200, { ...JSON_TYPE, 'content-length': '9' })
    sink?.write(Buffer.from('part'))
    expect(client.body).toBe('part')
  })

  test('needs no body if its client has disconnected', async () => {
    const here = new ForwardHere({ isCoalesced: true })
    await here.request().disconnect()
    expect(here.sent[0]?.head(200, { ...JSON_TYPE, 'content-length': '9' })).toBeNull()
  })
})

describe('a response of more than 256 KiB', () => {
  const long = Buffer.alloc(KIB_256 + 1, 'x')

  test('that declares it is streamed to the first from its beginning', () => {
    const { here, clients, sent } = start()
    const sink = sent().head(200, { ...JSON_TYPE, 'content-length': String(long.length) })
    expect(here.sent).toHaveLength(3)
    sink?.write(Buffer.from('part'))
    expect(clients.map(({ text }) => text.endsWith('part'))).toEqual([true, false, false])
  })

  test('that does not is streamed from where it is too long, with nothing lost', async () => {
    const { here, clients, sent } = start()
    const sink = sent().head(200, { ...JSON_TYPE, 'transfer-encoding': 'chunked' })
    expect(sink?.write(long.subarray(0, KIB_256))).toBe('continue')
    expect(here.sent).toHaveLength(1)
    sink?.write(long.subarray(KIB_256))
    expect(here.sent).toHaveLength(3)
    sink?.write(Buffer.from('END'))
    sink?.end()
    await turn()
    const [first] = clients
    expect(first?.body.match(/x/g)).toHaveLength(long.length)
    expect(first?.body.endsWith('END\r\n0\r\n\r\n')).toBe(true)
  })

  test('is not read on if its clients have disconnected, and fails like any other', async () => {
    const gone = start()
    const sink = gone.sent().head(200, { ...JSON_TYPE, 'transfer-encoding': 'chunked' })
    for (const client of gone.clients) await client.disconnect()
    expect(sink?.write(long)).toBe('discard')
    const { clients, sent } = start()
    const streamed = sent().head(200, { ...JSON_TYPE, 'transfer-encoding': 'chunked' })
    streamed?.write(long)
    streamed?.fail(new UpstreamFailure('reset'))
    expect(clients[0]?.request.response.destroyed).toBe(true)
  })

  test('of exactly 256 KiB is still for all', async () => {
    const { here, clients, sent } = start()
    await sent().respond('x'.repeat(KIB_256))
    expect(here.sent).toHaveLength(1)
    expect(clients.map(({ body }) => body.length)).toEqual(Array(3).fill(KIB_256))
  })
})

test('a body of more than 16 KiB is in memory once, however many clients do not read it', async () => {
  const { clients, sent } = start()
  const written = clients.map(({ request }) => vi.spyOn(request.response, 'end'))
  for (const client of clients) client.isReading = false
  await sent().respond('x'.repeat(KIB_256))
  const bodies = written.map(({ mock }) => mock.calls[0]?.[0])
  expect(bodies[0]).toBeInstanceOf(Buffer)
  expect(new Set(bodies).size).toBe(1)
})

describe('clients that disconnect', () => {
  test('do not disturb the others; the last one aborts the request', async () => {
    const { here, clients, sent } = start()
    for (const client of clients.slice(0, 2)) await client.disconnect()
    expect(sent().wasAborted).toBe(false)
    await clients[2]?.disconnect()
    expect(sent().wasAborted).toBe(true)
    here.request()
    expect(here.sent).toHaveLength(2)
  })

  test('while their response arrives do not end the sharing of the next one', async () => {
    const { here, clients, sent } = start()
    sent().head(200, { ...JSON_TYPE, 'content-length': '9' })
    here.request()
    for (const client of clients) await client.disconnect()
    here.request()
    expect([sent().wasAborted, here.sent.length]).toEqual([true, 2])
  })

  test('after their response abort nothing', async () => {
    const { clients, sent } = start()
    await sent().respond('{}')
    for (const client of clients) await client.disconnect()
    expect(sent().wasAborted).toBe(false)
  })
})

test('an error of the gateway itself closes the connections of those it concerns', () => {
  const all = start({
    policy: () => {
      throw new Error('planted')
    },
  })
  expect(all.sent().head(200, JSON_TYPE)).toBeNull()
  expect(all.clients.map(({ request }) => request.response.destroyed)).toEqual([true, true, true])
  let calls = 0
  const one = start({
    deny: () => {
      if (calls++ === 0) throw new Error('planted')
    },
  })
  one.sent().fail('reset')
  expect(one.clients.map(({ request }) => request.response.destroyed)).toEqual([true, false, false])
})
