import { afterEach, describe, expect, test } from 'vitest'
import type { Config } from '../../src/config/schema/schema.ts'
import { GatewayHere } from '../support/gateway-here.ts'
import { field, get, type RawAnswer } from '../support/raw-client.ts'
import { until } from '../support/until.ts'

const PATH = '/api/v1/workspaces/ws_A'
/** No check forwards a request. */
const NO_UPSTREAM = 'http://127.0.0.1:9'

let gateway: GatewayHere
let key: string
afterEach(() => gateway.stop())

async function start(check: Config['gateway']['check'], more = {}): Promise<void> {
  gateway = await GatewayHere.start(NO_UPSTREAM, { gateway: { check }, ...more })
  key = gateway.issue('ws_A')
}

const asked = (method: string, target: string) =>
  get('/anything', key, `X-Original-Method: ${method}`, `X-Original-URI: ${target}`)

async function answerTo(bytes: string): Promise<RawAnswer | undefined> {
  return (await gateway.open(bytes, 'check').answers(1))[0]
}

describe('the answer to a proxy', () => {
  test('permits a request, and names the identity', async () => {
    await start({ host: '127.0.0.1', port: 0, proxy: 'nginx' })
    const answer = await answerTo(asked('GET', PATH))
    expect([answer?.status, answer?.body]).toEqual([200, ''])
    expect(answer?.fields).toEqual(
      expect.arrayContaining([
        ['cache-control', 'no-store'],
        ['x-postern-workspace-id', 'ws_A'],
        ['x-postern-key-id', 'key_1'],
      ]),
    )
  })

  test('denies it, with what its client is to see', async () => {
    await start({ host: '127.0.0.1', port: 0, proxy: 'nginx' })
    for (const [bytes, status, original, code] of [
      [asked('PUT', PATH), 403, '405', 'method_not_allowed'],
      [asked('GET', '/x'), 403, '404', 'not_found'],
      [asked('GET', PATH).replace('Bearer', 'Basic'), 401, '401', 'key_missing'],
      [asked('GET', `${PATH}?`), 403, '400', 'invalid_request'],
      [get(PATH, key), 403, '400', 'invalid_request'],
      ['GET / HTTP/1.1\nHost: a\n\n', 403, '400', 'invalid_request'],
    ] as const) {
      const answer = await answerTo(bytes)
      if (answer === undefined) throw new Error(`There is no answer to ${bytes}`)
      expect([answer.status, field(answer, 'x-postern-status'), field(answer, 'x-postern-code')]).toEqual([
        status,
        original,
        code,
      ])
    }
  })

  test('is for the target of Envoy behind its prefix, or without one', async () => {
    await start({ host: '127.0.0.1', port: 0, proxy: 'envoy', pathPrefix: '/check' })
    expect((await answerTo(get(`/check${PATH}`, key)))?.status).toBe(200)
    expect((await answerTo(get(PATH, key)))?.status).toBe(400)
    expect((await answerTo(get(`/check${PATH}`, key).replace('GET', 'PUT')))?.status).toBe(405)
    await gateway.stop()
    await start({ host: '127.0.0.1', port: 0, proxy: 'envoy' })
    expect((await answerTo(get(PATH, key)))?.status).toBe(200)
  })
})

test('a check is logged with the method of the client and the status that the client sees', async () => {
  await start({ host: '127.0.0.1', port: 0, proxy: 'nginx' })
  await gateway.ask(asked('OPTIONS', PATH), 'check')
  await gateway.ask(get('/', key), 'check')
  await until('both are logged', () => gateway.lines.length === 2)
  expect(gateway.lines).toMatchObject([
    { method: 'OPTIONS', status: 405 },
    { method: 'GET', status: 400 },
  ])
})

test('a key that the proxy would forward in another header is refused', async () => {
  await start({ host: '127.0.0.1', port: 0, proxy: 'nginx' })
  const bytes = asked('GET', PATH).replace('\r\n\r\n', `\r\nCookie: a=${key}\r\n\r\n`)
  expect(await gateway.ask(bytes, 'check')).toBe('403 invalid_request keep-alive')
})

test('each answer has an assertion, if one is configured', async () => {
  const assertionFor = (_grant: unknown, target: string) => `for ${target}`
  await start({ host: '127.0.0.1', port: 0, proxy: 'nginx' }, { assertions: { assertionFor } })
  const answer = await answerTo(asked('GET', PATH))
  expect(answer?.fields).toContainEqual(['x-postern-assertion', `for ${PATH}`])
})

test('at the limit, the connection of a proxy replaces an idle one', async () => {
  const check = { host: '127.0.0.1', port: 0, proxy: 'nginx' } as const
  gateway = await GatewayHere.start(NO_UPSTREAM, { gateway: { check, maxConnections: 1 } })
  key = gateway.issue('ws_A')
  const first = gateway.open(asked('GET', PATH), 'check')
  await first.answers(1)
  expect(await gateway.ask(asked('GET', PATH), 'check')).toBe('200 - keep-alive')
  await first.untilClosed()
})

test('while it drains, each answer says that its connection closes', async () => {
  await start({ host: '127.0.0.1', port: 0, proxy: 'nginx' })
  gateway.phase = 'leaving'
  expect(await gateway.ask(asked('GET', PATH), 'check')).toBe('200 - close')
  gateway.phase = 'closing'
  expect(await gateway.ask(asked('GET', PATH), 'check')).toBe('403 overloaded close')
})

test.each([
  ['no proxy', { host: '127.0.0.1', port: 0 }],
  ['no port', { host: '127.0.0.1', proxy: 'nginx' }],
] as const)('there is no such listener with %s', async (_, check) => {
  await start(check)
  expect(gateway.listeners.check).toBeNull()
})
