import { Agent } from 'node:http'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import type { UpstreamSettings } from '../../src/upstream/pool/connection.ts'
import { UpstreamDispatcher } from '../../src/upstream/pool/dispatcher.ts'
import { collectGarbage } from '../support/expose-gc.ts'
import {
  FILES_PATH,
  type ForwardingApp,
  metricSum,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../support/forwarding-app.ts'
import { exchangeRaw, get } from '../support/http-client.ts'
import {
  json,
  type Script,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../support/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: ForwardingApp

async function start(script: Script, settings: Partial<UpstreamSettings> = {}) {
  upstream = await startScriptedUpstream(script)
  gateway = await startForwardingApp(upstream.url, settings)
}

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

test('a response passes with its status and body, and gets the gateway’s headers', async () => {
  await start(request => request.send(json('{"id":"ws_1"}')))
  const response = await get(gateway.port, WORKSPACE_PATH)
  expect(response.status).toBe(200)
  expect(response.text).toBe('{"id":"ws_1"}')
  expect(response.headers).toMatchObject({
    'content-type': 'application/json',
    'content-length': '13',
    'cache-control': 'private',
    'x-request-id': 'req-1',
  })
  expect(gateway.requests[0]?.observation.upstreamWaitMs).toBeGreaterThan(0)
})

test('the upstream receives exactly the gateway’s headers and the allowed headers of the client', async () => {
  await start(request => request.send(json('{}')), { headers: { Authorization: 'Bearer service' } })
  await get(gateway.port, `${FILES_PATH}?limit=5`, {
    Authorization: 'Bearer wsk_secret',
    Accept: 'application/json',
    Cookie: 'a=b',
    'X-Postern-Key-Id': 'key_forged',
    X_Postern_Key_Id: 'key_forged',
    'X-Forwarded-For': '10.0.0.1',
    Connection: 'close, accept, x-postern-key-id',
    TE: 'trailers',
    'Keep-Alive': 'timeout=5',
    Upgrade: 'h2c',
    Host: 'public.example',
  })
  expect(upstream.requests[0]?.head.split('\r\n')).toEqual([
    `GET ${FILES_PATH}?limit=5 HTTP/1.1`,
    `host: 127.0.0.1:${upstream.port}`,
    'connection: keep-alive',
    'accept: application/json',
    'authorization: Bearer service',
    'x-postern-workspace-id: ws_1',
    'x-postern-key-id: key_01',
    'x-postern-scopes: files:read workspace:read',
    'x-request-id: req-1',
    'x-forwarded-for: 127.0.0.1',
    'x-forwarded-proto: http',
    'x-forwarded-host: public.example',
    '',
    '',
  ])
})

test('a path in upstream.url precedes the path of the route', async () => {
  upstream = await startScriptedUpstream(request => request.send(json('{}')))
  gateway = await startForwardingApp(`${upstream.url}/inner/v2/`)
  await get(gateway.port, `${FILES_PATH}?limit=5`)
  expect(upstream.requests[0]?.target).toBe(`/inner/v2${FILES_PATH}?limit=5`)
})

test.each(['/api/v1/workspaces/a%5c..%5cws_2', '/api/v1/workspaces/ws_1/../ws_2', '/api/v1/workspaces/ws_2'])(
  'a request for %s never reaches the upstream',
  async path => {
    await start(request => request.send(json('{}')))
    expect((await get(gateway.port, path)).status).toBe(404)
    expect(upstream.requests).toHaveLength(0)
  },
)

test('a client’s Expect is harmless', async () => {
  await start(request => request.send(json('{}')))
  const response = await exchangeRaw(
    gateway.port,
    `GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`,
  )
  expect(response.text).toContain('HTTP/1.1 200 OK')
  expect(upstream.requests[0]?.headers.has('expect')).toBe(false)
})

test('Fastify’s onResponse receives every response, forwarded or rejected', async () => {
  upstream = await startScriptedUpstream(request =>
    request.send(request.number === 0 ? json('{}') : 'HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n'),
  )
  const statuses: number[] = []
  gateway = await startForwardingApp(upstream.url, {}, {}, app => {
    app.addHook('onResponse', async (_request, reply) => void statuses.push(reply.statusCode))
  })
  await get(gateway.port, WORKSPACE_PATH)
  await get(gateway.port, WORKSPACE_PATH)
  expect(statuses).toEqual([200, 502])
})

test('connections and responses are counted', async () => {
  await start(request => request.send(json('{}')))
  await get(gateway.port, WORKSPACE_PATH)
  await get(gateway.port, WORKSPACE_PATH)
  const value = (name: string, labels: Record<string, string>) => metricSum(gateway.metrics, name, labels)
  expect(await value('postern_upstream_requests_total', { code: '200', upstream: 'default' })).toBe(2)
  expect(await value('postern_upstream_connections', { state: 'open' })).toBe(1)
  expect(await value('postern_upstream_connections', { state: 'free' })).toBe(1)
  expect(await value('postern_upstream_connections', { state: 'pending' })).toBe(0)
  expect(await value('postern_upstream_queued_requests', {})).toBe(0)
})

test('an idle connection retains no finished exchange', async () => {
  const finished: WeakRef<object>[] = []
  const { send } = UpstreamDispatcher.prototype
  UpstreamDispatcher.prototype.send = function (...values) {
    const exchange = send.apply(this, values)
    finished.push(new WeakRef(exchange))
    return exchange
  }
  onTestFinished(() => {
    UpstreamDispatcher.prototype.send = send
  })
  upstream = await startScriptedUpstream(request => request.send(json('{}')))
  gateway = await startForwardingApp(upstream.url)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  for (let count = 0; count < 5; count++) await get(gateway.port, WORKSPACE_PATH, {}, agent)
  gateway.requests.length = 0
  await new Promise(setImmediate)
  collectGarbage()
  expect(finished).toHaveLength(5)
  expect(finished.filter(reference => reference.deref() !== undefined)).toEqual([])
  agent.destroy()
})

test('an internal error while responding closes the connection of that client only', async () => {
  upstream = await startScriptedUpstream(request =>
    request.number === 0 ? request.socket.end() : request.send(json('{}')),
  )
  const deny = () => {
    throw new Error('internal error')
  }
  gateway = await startForwardingApp(upstream.url, { connections: 1 }, { deny })
  await expect(get(gateway.port, WORKSPACE_PATH)).rejects.toThrow('socket hang up')
  expect((await get(gateway.port, WORKSPACE_PATH)).status).toBe(200)
})
