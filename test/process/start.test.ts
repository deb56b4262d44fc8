import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { PosternProcess, runPostern, startPostern } from '../support/postern-process.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { exchange, get, RawClient } from '../support/raw-client.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { RedisServer } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'

const ADMIN_TOKEN = 'admin-token-of-the-starts'
const shared = {
  POSTERN_KEY_SERVICE_TOKEN: randomBytes(24).toString('base64url'),
  POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
  POSTERN_DRAIN_DELAY_MS: '0',
}

interface Readiness {
  readonly code: number
  readonly says: Record<string, unknown>
}

async function readiness(opsUrl: string): Promise<Readiness> {
  const answer = await fetch(`${opsUrl}/readyz`)
  return { code: answer.status, says: (await answer.json()) as Record<string, unknown> }
}

/** Milliseconds until `/readyz` fulfils the condition. */
async function recovery(opsUrl: string, wanted: (says: Record<string, unknown>) => boolean): Promise<number> {
  const startedAtMs = performance.now()
  await until('/readyz reports recovery', async () => wanted((await readiness(opsUrl)).says), 20_000)
  return Math.round(performance.now() - startedAtMs)
}

async function issue(consoleUrl: string): Promise<Response> {
  return fetch(`${consoleUrl}/admin/v1/workspaces/ws_1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
    body: '{"name":"first","scopes":["workspace:read"]}',
  })
}

test('a gateway that starts while Redis, key service and upstream are down is ready, names what is missing, and recovers', {
  timeout: 60_000,
}, async () => {
  const ports = { redis: await freePort(), console: await freePort(), upstream: await freePort() }
  const gateway = await startPostern('gateway', {
    ...shared,
    POSTERN_REDIS_URL: `redis://127.0.0.1:${ports.redis}`,
    POSTERN_KEY_SERVICE_URL: `http://127.0.0.1:${ports.console}`,
    POSTERN_UPSTREAM_URL: `http://127.0.0.1:${ports.upstream}`,
  })
  onTestFinished(() => void gateway.process.stop())
  expect(await readiness(gateway.urls.ops)).toMatchObject({
    code: 200,
    says: { status: 'ready', redis: 'down', changes: 'disconnected' },
  })

  const redis = await RedisServer.start({ port: ports.redis })
  const upstream = await RecordingUpstream.start(ports.upstream)
  const console = await startPostern('console', {
    ...shared,
    POSTERN_CONSOLE_INTERNAL_PORT: String(ports.console),
    POSTERN_REDIS_URL: redis.url,
    POSTERN_ADMIN_TOKEN: ADMIN_TOKEN,
    POSTERN_DATABASE_URL: 'sqlite::memory:',
  })
  onTestFinished(async () => {
    await console.process.stop()
    await Promise.all([redis.stop(), upstream.stop()])
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
    ...shared,
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

test('a console that starts while Redis is down issues keys, names what is missing, and announces keys once Redis is up', {
  timeout: 60_000,
}, async () => {
  const port = await freePort()
  const console = await startPostern('console', {
    ...shared,
    POSTERN_REDIS_URL: `redis://127.0.0.1:${port}`,
    POSTERN_ADMIN_TOKEN: ADMIN_TOKEN,
    POSTERN_DATABASE_URL: `sqlite:${temporaryDirectory()}/keys.db`,
  })
  onTestFinished(() => void console.process.stop())
  expect(await readiness(console.urls.ops)).toMatchObject({
    code: 200,
    says: { database: 'ok', announcer: 'down' },
  })
  expect((await issue(console.urls.console)).status).toBe(201)
  const redis = await RedisServer.start({ port })
  onTestFinished(() => redis.stop())
  await recovery(console.urls.ops, says => says['announcer'] === 'ready')
  await until('the key is in Redis', async () => (await redis.admin.keys('postern:key:*')).length === 1)
})

describe.skipIf(!has(POSTGRES))('a console whose PostgreSQL is down when it starts', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())

  /** @returns settings, and the URL of the ops port */
  async function settings(databaseUrl: string) {
    const ops = await freePort()
    const env = {
      ...shared,
      POSTERN_CONSOLE_HOST: '127.0.0.1',
      POSTERN_CONSOLE_PORT: '0',
      POSTERN_CONSOLE_INTERNAL_HOST: '127.0.0.1',
      POSTERN_CONSOLE_INTERNAL_PORT: '0',
      POSTERN_OPS_HOST: '127.0.0.1',
      POSTERN_OPS_PORT: String(ops),
      POSTERN_ADMIN_TOKEN: ADMIN_TOKEN,
      POSTERN_DATABASE_URL: databaseUrl,
    }
    return { env, opsUrl: `http://127.0.0.1:${ops}` }
  }

  async function elsewhere(): Promise<{ url: string; port: number; real: string }> {
    const real = await server.database()
    const port = await freePort()
    const url = new URL(real)
    url.port = String(port)
    return { url: url.href, port, real }
  }

  test('waits, stays alive and unready, logs what it waits for, and serves once the database is up', {
    timeout: 60_000,
  }, async () => {
    const { url, port, real } = await elsewhere()
    const { env, opsUrl } = await settings(url)
    const console = new PosternProcess(['console'], env)
    onTestFinished(() => void console.stop())
    const waiting = await console.logged(line => line['msg'] === 'waiting for the database')
    expect(String(waiting['cause'])).toContain('ECONNREFUSED')
    expect(await readiness(opsUrl)).toEqual({ code: 503, says: { status: 'starting', database: 'failed' } })
    expect((await fetch(`${opsUrl}/livez`)).status).toBe(200)

    const proxy = await TcpProxy.start(real, port)
    onTestFinished(() => proxy.stop())
    const tookMs = await recovery(opsUrl, says => says['status'] === 'ready' && says['database'] === 'ok')
    const listening = await console.logged(line => line['msg'] === 'listening')
    expect((await issue(String(listening['console']))).status).toBe(201)
    process.stdout.write(`console started without PostgreSQL: ready ${tookMs} ms after it started\n`)
    expect((await console.stop('SIGTERM')).code).toBe(0)
  })

  test('exits at once, in order, on SIGTERM while it waits', async () => {
    const { env } = await settings((await elsewhere()).url)
    const console = new PosternProcess(['console'], env)
    await console.logged(line => line['msg'] === 'waiting for the database')
    expect(await console.stop('SIGTERM')).toMatchObject({ code: 0, stderr: '' })
  })

  test('does not wait if the setting is wrong: a rejected password, a database that does not exist', async () => {
    const refused = new URL(await server.database())
    refused.password = 'hunter2'
    const absent = new URL(await server.database())
    absent.pathname = '/missing_database'
    for (const url of [refused, absent]) {
      const { env } = await settings(url.href)
      const exit = await runPostern(['console'], env)
      expect(exit.code).toBe(1)
      expect(exit.stderr).toMatch(/database\.url: cannot reach PostgreSQL: /)
      expect(exit.stderr + exit.stdout).not.toContain('hunter2')
    }
  })
})
