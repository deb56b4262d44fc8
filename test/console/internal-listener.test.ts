import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import type { FastifyInstance } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { ADMIN_TOKEN, KEY_SERVICE_TOKEN, startConsole } from '../support/console.ts'
import { metricValue } from '../support/metric-value.ts'

const DIGEST = '0'.repeat(64)
const TOKENS = [KEY_SERVICE_TOKEN, ADMIN_TOKEN].map(token => ({ authorization: `Bearer ${token}` }))

/** `GET /path` for each route of a listener, whichever plugin declares it. */
async function routesOf(app: FastifyInstance): Promise<{ method: string; url: string }[]> {
  const found: { method: string; url: string }[] = []
  app.addHook('onRoute', ({ method, url }) => {
    for (const one of [method].flat()) found.push({ method: one, url })
  })
  await app.ready()
  return found
}

const pathOf = (url: string) => url.replace(/:\w+/g, 'x').replace('*', 'x')

test('no public path exists on the internal listener, with or without the token', async () => {
  const { app, internal } = await startConsole()
  const routes = await routesOf(app)
  expect(routes.length).toBeGreaterThan(20)
  for (const { method, url } of routes) {
    for (const headers of TOKENS) {
      const answer = await internal.inject({ method: method as 'GET', url: pathOf(url), headers })
      const code = method === 'HEAD' ? 'unknown_path' : answer.json().code
      expect([url, answer.statusCode, code]).toEqual([url, 404, 'unknown_path'])
    }
  }
})

test('no internal path exists on the public listener, and its 404 is not the one of an unknown key', async () => {
  const { app, internal } = await startConsole()
  const routes = await routesOf(internal)
  expect(routes.filter(({ method }) => method !== 'HEAD').length).toBeGreaterThanOrEqual(4)
  for (const { method, url } of routes) {
    for (const headers of TOKENS) {
      const answer = await app.inject({
        method: method as 'GET',
        url: url.replace(':digest', DIGEST),
        headers,
      })
      expect([url, answer.statusCode, answer.headers['content-type']]).toEqual([
        url,
        404,
        'application/json; charset=utf-8',
      ])
      expect(answer.body === '' || answer.json().code === 'unknown_path').toBe(true)
    }
  }
})

test('framework errors on the internal listener are JSON with a request id', async () => {
  const { internal } = await startConsole()
  const headers = { authorization: `Bearer ${KEY_SERVICE_TOKEN}`, 'x-request-id': 'of-a-test' }
  const json = { ...headers, 'content-type': 'application/json' }
  const refused = await Promise.all([
    internal.inject({ method: 'GET', url: '/internal/v1/%zz', headers }),
    internal.inject({ method: 'GET', url: `/internal/v1/keys/${'a'.repeat(600)}`, headers }),
    internal.inject({ method: 'DELETE', url: `/internal/v1/keys/${DIGEST}`, headers }),
    internal.inject({ method: 'POST', url: '/internal/v1/lookups', headers: json, payload: '{' }),
    internal.inject({
      method: 'POST',
      url: '/internal/v1/lookups',
      headers: json,
      payload: ' '.repeat(65_537),
    }),
    internal.inject({
      method: 'POST',
      url: '/internal/v1/lookups',
      headers: { ...headers, 'content-type': 'text/plain' },
      payload: 'x',
    }),
  ])
  expect(refused.map(answer => [answer.statusCode, answer.json().code])).toEqual([
    [400, 'invalid_request'],
    [400, 'invalid_request'],
    [405, 'method_not_allowed'],
    [400, 'invalid_request'],
    [413, 'request_too_large'],
    [415, 'unsupported_media_type'],
  ])
  for (const answer of refused) expect(answer.headers['x-request-id']).toBe('of-a-test')
})

test('bytes that are not HTTP on the internal listener get a JSON error, and the connection closes', async () => {
  const { internal } = await startConsole()
  const { port } = new URL(await internal.listen({ host: '127.0.0.1', port: 0 }))
  const socket = connect(Number(port), '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.write('no http at all\r\n\r\n')
  const answer = await text(socket)
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect(JSON.parse(answer.split('\r\n\r\n')[1] ?? '')).toMatchObject({ code: 'invalid_request' })
})

test('requests of gateways, rejected ones included, are counted from zero, apart from those of the admin API', async () => {
  const metrics = createMetrics()
  const { send } = await startConsole({ parts: { metrics } })
  const { values } = await metrics.internalRequests.get()
  expect(values.map(({ labels: { operation, code }, value }) => [operation, code, value])).toEqual(
    ['lookup', 'lookups', 'usage', 'confirmations'].flatMap(operation => [
      [operation, '401', 0],
      [operation, '500', 0],
    ]),
  )
  await send('GET', `/internal/v1/keys/${DIGEST}`)
  await send('GET', `/internal/v1/keys/${DIGEST}`, undefined, { headers: { authorization: 'Bearer wrong' } })
  await send('GET', '/internal/v1/nothing')
  const counted = (operation: string, code: string) =>
    metricValue(metrics.internalRequests, { operation, code })
  expect(await counted('lookup', '404')).toBe(1)
  expect(await counted('lookup', '401')).toBe(1)
  expect(await counted('other', '404')).toBe(1)
  expect(await metricValue(metrics.adminRequests, { operation: 'other', code: '404' })).toBe(0)
})
