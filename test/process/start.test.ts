import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { Parts } from '../support/parts.ts'
import { startPostern } from '../support/postern-process.ts'
import { exchange, get, RawClient } from '../support/raw-client.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { until } from '../support/until.ts'
import { ADMIN_TOKEN, issue, readiness, recovery, SHARED } from './starts.ts'

test('a gateway that starts while Redis, key service and upstream are down is ready, names what is missing, and recovers', async () => {
  const parts = new Parts()
  onTestFinished(() => parts.stop())
  const ports = { redis: await freePort(), console: await freePort(), upstream: await freePort() }
  const gateway = await parts.gateway({
    POSTERN_REDIS_URL: `redis://127.0.0.1:${ports.redis}`,
    POSTERN_KEY_SERVICE_URL: `http://127.0.0.1:${ports.console}`,
    POSTERN_UPSTREAM_URL: `http://127.0.0.1:${ports.upstream}`,
  })
  expect(await readiness(gateway.urls.ops)).toMatchObject({
    code: 200,
    says: { status: 'ready', redis: 'down', changes: 'disconnected', upstream: 'down' },
  })

  const redis = await parts.redis({ port: ports.redis })
  const upstream = await parts.own(await RecordingUpstream.start(ports.upstream))
  const console = await parts.console({
    POSTERN_CONSOLE_INTERNAL_PORT: String(ports.console),
    POSTERN_REDIS_URL: redis.url,
    POSTERN_ADMIN_TOKEN: ADMIN_TOKEN,
    POSTERN_DATABASE_URL: 'sqlite::memory:',
  })
  const tookMs = await recovery(
    gateway.urls.ops,
    says => says['redis'] === 'ok' && says['changes'] === 'connected',
  )
  const { secret } = (await (await issue(console.urls.console)).json()) as { secret: string }
  const answer = await exchange(gateway.urls.gateway, get('/api/v1/workspaces/ws_1', secret))
  process.stdout.write(
    `gateway started while all else was down: recovered ${tookMs} ms after the last start; wrong 0, upstream requests ${upstream.requests.length}\n`,
  )
  expect([answer.status, upstream.requests.length]).toEqual([200, 1])
})

test('a gateway that listens on a name with several addresses applies its limits on each of them', async () => {
  const gateway = await startPostern('gateway', {
    ...SHARED,
    POSTERN_GATEWAY_HOST: 'localhost',
    POSTERN_KEY_SERVICE_URL: 'http://127.0.0.1:1',
    POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
  })
  onTestFinished(() => void gateway.process.stop())
  const { port } = new URL(gateway.urls.gateway)
  const fields = Array.from({ length: 101 }, (_, index) => `X-${index}: 1`)
  const reached = []
  for (const host of ['127.0.0.1', '[::1]']) {
    const client = new RawClient(`http://${host}:${port}`)
    client.send(get('/api/v1/auth', undefined, ...fields))
    const [answer] = await client.untilClosed()
    if (answer !== undefined) reached.push([answer.status, JSON.parse(answer.body).code])
  }
  expect(reached.length).toBeGreaterThan(0)
  expect(reached).toEqual(reached.map(() => [431, 'request_too_large']))
})

test('a console that starts while Redis is down issues keys, names what is missing, and announces keys once Redis is up', async () => {
  const parts = new Parts()
  onTestFinished(() => parts.stop())
  const port = await freePort()
  const console = await parts.console({
    POSTERN_REDIS_URL: `redis://127.0.0.1:${port}`,
    POSTERN_ADMIN_TOKEN: ADMIN_TOKEN,
  })
  expect(await readiness(console.urls.ops)).toMatchObject({
    code: 200,
    says: { database: 'ok', announcer: 'down' },
  })
  expect((await issue(console.urls.console)).status).toBe(201)
  const redis = await parts.redis({ port })
  await recovery(console.urls.ops, says => says['announcer'] === 'ready')
  await until('the key is in Redis', async () => (await redis.countRecords()) === 1)
})
