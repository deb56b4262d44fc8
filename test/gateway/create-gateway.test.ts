import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Lookup } from '../../src/domain/key/key-record.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { GatewayHere, type GatewayHereOptions } from '../support/gateway-here.ts'
import { metricValue } from '../support/metric-value.ts'
import { get } from '../support/raw-client.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { until } from '../support/until.ts'

const A = '/api/v1/workspaces/ws_A'
const B = '/api/v1/workspaces/ws_B'

let upstream: RecordingUpstream
let gateway: GatewayHere
beforeEach(async () => {
  upstream = await RecordingUpstream.start()
})
afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

async function start(options: GatewayHereOptions = {}): Promise<string> {
  gateway = await GatewayHere.start(upstream.url, options)
  return gateway.issue('ws_A')
}

/** Requests that the upstream holds until the test ends. */
async function hold(count: number, key: string): Promise<void> {
  upstream.hold = () => new Promise(() => {})
  const before = upstream.requests.length
  for (let index = 0; index < count; index++) gateway.open(get(A, key))
  await until('the upstream has them', () => upstream.requests.length === before + count)
}

describe('a gateway that stops', () => {
  test('announces on each response that the connection closes, and serves until it is closed', async () => {
    const key = await start()
    expect(await gateway.ask(get(A, key))).toBe('200 - keep-alive')
    gateway.phase = 'leaving'
    expect(await gateway.ask(get(A, key))).toBe('200 - close')
    expect(await gateway.ask(get(A))).toBe('401 key_missing close')
    gateway.phase = 'closing'
    expect(await gateway.ask(get(A, key))).toBe('503 overloaded close')
    expect(upstream.requests).toHaveLength(2)
  })

  test('releases delayed denials at once, and its connections to the upstream', async () => {
    const key = await start({ gateway: { maxInFlight: 1 }, heapLimitBytes: 1 })
    await gateway.ask(get(A, key))
    await until('the heap is full', async () => (await metricValue(gateway.metrics.inFlightLimit)) === 1)
    await gateway.stop()
    await until('the upstream has no connection', () => upstream.ended === 1)
  })
})

describe('a gateway that has too much to do', () => {
  test('rejects a workspace that took all, and serves others from a reserve of a quarter', async () => {
    const key = await start({ gateway: { maxInFlight: 4 } })
    expect(await metricValue(gateway.metrics.inFlightLimit)).toBe(4)
    await hold(4, key)
    expect(await gateway.ask(get(A, key))).toBe('503 overloaded keep-alive')
    await until('it is logged', () => gateway.lines.length === 1)
    expect(gateway.lines).toMatchObject([{ reason: 'workspace_overloaded', workspaceId: 'ws_A' }])
    expect(await gateway.ask(get('/api/v1/auth', gateway.issue('ws_B')))).toBe('200 - keep-alive')
  })

  test('rejects all before a lookup if it is full', async () => {
    const key = await start({ gateway: { maxInFlight: 1 } })
    await hold(1, key)
    const lookups = gateway.lookups.length
    expect(await gateway.ask(get(A, key))).toBe('503 overloaded keep-alive')
    await until('it is logged', () => gateway.lines.length === 1)
    expect(gateway.lines).toMatchObject([{ reason: 'overloaded' }])
    expect(gateway.lookups).toHaveLength(lookups)
  })

  test('admits one request at a time if its heap is full', async () => {
    await start({ heapLimitBytes: 1 })
    await until('it measured', async () => (await metricValue(gateway.metrics.inFlightLimit)) === 1)
  })

  test('closes connections above their limit at once if all are in use, and says so', async () => {
    const key = await start({ gateway: { maxConnections: 1 } })
    const response = Promise.withResolvers<void>()
    upstream.hold = () => response.promise
    const client = gateway.open(get(A, key))
    await until('the upstream has its request', () => upstream.requests.length === 1)
    expect(await gateway.ask(get(A, key))).toBe('closed without a response')
    const reason = expect.stringMatching(/connection limit \(1\)/)
    expect(gateway.lines).toContainEqual(
      expect.objectContaining({ part: 'connection accept', msg: 'connection accept failing', reason }),
    )
    response.resolve()
    expect(await client.answers(1)).toHaveLength(1)
    client.end()
    await until('there is room, and the log says so', async () => {
      expect(await gateway.ask(get(A, key))).toBe('200 - keep-alive')
      return gateway.lines.some(({ msg }) => msg === 'connection accept recovered')
    })
  })
})

describe('a lookup', () => {
  test('has the address of the client only if the key has no MAC', async () => {
    const key = await start({ keyFormat: 'opaque', gateway: { trustedProxies: ['127.0.0.1/32'] } })
    await gateway.ask(get(A, key, 'X-Forwarded-For: 198.51.100.7', 'X-Forwarded-For: 192.0.2.7'))
    await gateway.ask(get(A, key))
    expect(gateway.lookups.map(([, address]) => address)).toEqual(['192.0.2.7', '127.0.0.1'])
  })

  test('has no address if the key has a MAC: such keys cannot be invented', async () => {
    const key = await start()
    await gateway.ask(get(A, key))
    expect(gateway.lookups.map(([, address]) => address)).toEqual([null])
  })

  test.each<[string, () => Lookup | Promise<Lookup>]>([
    ['rejects', () => Promise.reject(new Error('the store is broken'))],
    [
      'throws',
      () => {
        throw new Error('the store is broken')
      },
    ],
  ])('that %s is answered, logged and ends the connection', async (_, lookUp) => {
    const key = await start()
    gateway.lookUp = lookUp
    expect(await gateway.ask(get(A, key, 'X-Request-Id: mine'))).toBe('500 internal_error close')
    expect(gateway.lines).toContainEqual(
      expect.objectContaining({
        msg: 'request failed',
        requestId: 'mine',
        err: expect.objectContaining({ message: 'the store is broken' }),
      }),
    )
  })

  test('that takes long delays the decision, not its result', async () => {
    const key = await start()
    const { lookUp } = gateway
    gateway.lookUp = async digest => {
      await new Promise(setImmediate)
      return lookUp(digest)
    }
    expect(await gateway.ask(get(A, key))).toBe('200 - keep-alive')
    expect(await gateway.ask(get(B, key))).toBe('404 not_found keep-alive')
  })
})

describe('a key outside of Authorization', () => {
  test('is removed from headers before anything reads them', async () => {
    const key = await start()
    expect(await gateway.ask(get(A, key, `X-Request-Id: ${key}`, `Accept: ${key}`))).toBe('200 - keep-alive')
    expect(upstream.requests.join()).not.toContain(key)
    expect(JSON.stringify(gateway.lines)).not.toContain(key)
  })

  test('in X-Forwarded-For hides no address that a trusted proxy has added', async () => {
    const free = await start({ gateway: { trustedProxies: ['127.0.0.1'] } })
    const limited = gateway.issue('ws_A', { allowedCidrs: ['127.0.0.0/8'] })
    const ask = (key: string, addresses: string) => gateway.ask(get(A, key, `X-Forwarded-For: ${addresses}`))
    // The address of the proxy itself is allowed.
    for (const addresses of [
      `${limited}, 198.51.100.7`,
      `${free},198.51.100.7`,
      `198.51.100.7, ${limited}`,
    ]) {
      expect(await ask(limited, addresses)).toBe('403 address_not_allowed keep-alive')
    }
    expect(await ask(free, `${free}, 198.51.100.7`)).toBe('200 - keep-alive')
    expect(upstream.requests).toHaveLength(1)
    expect(upstream.requests[0]).toMatch(/\r\nx-forwarded-for: unknown, 198\.51\.100\.7, 127\.0\.0\.1\r\n/i)
  })

  test('in a path is refused, because upstreams log paths', async () => {
    const path = 'ws_0123456789abcdef'
    const [grant] = [await start({ keyFormat: 'opaque' })].map(key => gateway.grants.get(digestKey(key)))
    if (grant === undefined) throw new Error('The key has no record')
    gateway.grants.set(digestKey(path), { ...grant, workspaceId: path })
    const [answer] = await gateway.open(get(`/api/v1/workspaces/${path}`, path)).answers(1)
    const error = 'Send the API key in the Authorization header only'
    expect(JSON.parse(answer?.body ?? '')).toEqual({ code: 'invalid_request', error })
    expect(upstream.requests).toEqual([])
  })
})

describe('a connection', () => {
  test('that ends after a response answers no request that was sent with it', async () => {
    const key = await start()
    gateway.phase = 'leaving'
    const client = gateway.open(get(A, key) + get(A, key))
    expect((await client.untilClosed()).map(({ status }) => status)).toEqual([200])
    expect(upstream.requests).toHaveLength(1)
  })

  test('answers requests that were sent together in order', async () => {
    const key = await start()
    const client = gateway.open(get(A) + get(`${A}/files?limit=5`, key) + get(B, key))
    expect((await client.answers(3)).map(({ status }) => status)).toEqual([401, 200, 404])
    expect(upstream.requests.join()).toMatch(/^GET \/api\/v1\/workspaces\/ws_A\/files\?limit=5 /)
  })
})

describe('every request is answered in the format of the gateway', () => {
  test.each([
    ['OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n', '404 not_found keep-alive'],
    [`PROPFIND ${A} HTTP/1.1\r\nHost: a\r\n\r\n`, '405 method_not_allowed keep-alive'],
    [`GET ${A}%zz HTTP/1.1\r\nHost: a\r\n\r\n`, '401 key_missing keep-alive'],
    ['GET /%2e%2e/%00 HTTP/1.1\r\nHost: a\r\n\r\n', '404 not_found keep-alive'],
    [`GET ${A} HTTP/1.1\r\n\r\n`, '400 invalid_request close'],
    [`GET ${A} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n`, '401 key_missing keep-alive'],
    [`GET ${A} HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n`, '417 invalid_request close'],
    [
      `GET ${A} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n`,
      '401 key_missing keep-alive',
    ],
    [`GET ${A} HTTP/1.1\r\nHost: a\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`, '431 request_too_large close'],
    [`GET ${A} HTTP/1.1\r\nHost: a\r\nX-Long: ${'x'.repeat(30_000)}\r\n\r\n`, '431 request_too_large close'],
    [`GET ${A} HTTP/1.1\r\nHost: a\r\nX-A: a\u0001b\r\n\r\n`, '400 invalid_request close'],
    [`GET ${A} HTTP/1.1\nHost: a\n\n`, '400 invalid_request close'],
  ])('%j', async (bytes, expected) => {
    await start()
    expect(await gateway.ask(bytes)).toBe(expected)
    await until('it is logged', () => gateway.lines.length > 0)
    expect(gateway.lines).toMatchObject([{ status: Number(expected.slice(0, 3)) }])
  })
})

test('a gateway without an upstream does not start', async () => {
  // The settings of `postern gateway` require it; here it is left out by force.
  const upstreamless = { url: undefined } as unknown as { url: string }
  await expect(start({ upstream: upstreamless })).rejects.toThrow(/upstream\.url/)
})
