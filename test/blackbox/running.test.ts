import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { fileWith } from '../config/examples.ts'
import { HELD_MS, HOLDING_TIMES, letPass } from '../support/held-times.ts'
import { measured } from '../support/measured-again.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { type Listening, runPostern, startPostern } from '../support/postern-process.ts'
import { field, get, RawClient } from '../support/raw-client.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

describe('settings', () => {
  test('all mistakes are reported together, with the name that the operator used, and exit code 78', async () => {
    const exit = await runPostern(['config', 'check', '--drain-delay-ms', 'soon'], {
      POSTERN_GATEWAY_PORT: 'tcp://10.0.0.1:8080',
      POSTERN_UPSTREAM_ULR: 'http://u',
      POSTERN_KEYS_SIGNING_SECRETS: 'c2hvcnQ=',
      POSTERN_LOG_LEVEL: 'loud',
      POSTERN_ADMIN_TOKEN: 'a',
      POSTERN_KEY_SERVICE_TOKEN: '',
    })
    expect(exit.code).toBe(78)
    for (const name of [
      'POSTERN_ADMIN_TOKEN',
      'POSTERN_KEY_SERVICE_TOKEN',
      'upstream.url: is required',
      'redis.url, keyService.url: at least one is required',
      'POSTERN_GATEWAY_PORT',
      'POSTERN_UPSTREAM_ULR',
      'POSTERN_KEYS_SIGNING_SECRETS',
      'POSTERN_LOG_LEVEL',
      '--drain-delay-ms',
    ]) {
      expect(exit.stderr).toContain(name)
    }
    expect(exit.stderr).toContain('enableServiceLinks')
    expect(exit.stderr).not.toContain('c2hvcnQ=')
  })

  test.each(['config check', 'gateway', 'console'])('%s refuses a signing secret of zeros', async command => {
    const exit = await runPosternHere(command.split(' '), {
      POSTERN_UPSTREAM_URL: 'http://u',
      POSTERN_REDIS_URL: 'redis://r',
      POSTERN_KEYS_SIGNING_SECRETS: Buffer.alloc(32).toString('base64'),
    })
    expect(exit.code).toBe(78)
    expect(exit.stderr).toContain('POSTERN_KEYS_SIGNING_SECRETS: holds one that is obviously not random')
  })

  test.each(['gateway', 'console'])('%s refuses to start without required settings', async command => {
    const exit = await runPosternHere([command])
    expect(exit.code).toBe(78)
    expect(exit.stderr).toContain('keys.signingSecrets')
  })

  test.each([
    ['a folder', '.', 'EISDIR'],
    ['a file of another program', 'text', 'file is not a database'],
    ['in no folder', 'gone/a.db', 'ENOENT'],
  ])('a SQLite file that is %s ends the start with one line and exit code 78', async (_what, path, cause) => {
    const folder = await mkdtemp(join(tmpdir(), 'postern-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    await mkdir(join(folder, 'data'))
    await writeFile(join(folder, 'data', 'text'), 'no database'.repeat(1_000))
    const exit = await runPostern(['console'], {
      POSTERN_OPS_PORT: '0',
      POSTERN_DATABASE_URL: `sqlite:${join(folder, 'data', path)}`,
      POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
    })
    expect(exit.stderr).toMatch(new RegExp(`^database\\.url: cannot open .*${cause}.*\\n$`))
    expect(exit.code).toBe(78)
  })

  test('an unknown flag is a usage error', async () => {
    const exit = await runPosternHere(['gateway', '--upstream-ulr', 'http://u'])
    expect(exit.code).toBe(64)
    expect(exit.stderr).toContain('--upstream-ulr')
  })

  test('config print shows the effective settings and no secret', async () => {
    const secret = randomBytes(32).toString('base64')
    const exit = await runPostern(['config', 'print', '--redis-url', 'redis://user:canary-1@r:6379'], {
      POSTERN_KEYS_SIGNING_SECRETS: secret,
      POSTERN_ADMIN_TOKEN: 'canary-2-canary-2',
      POSTERN_UPSTREAM_HEADERS: '{"Authorization":"Bearer canary-3"}',
    })
    expect(exit.code).toBe(0)
    expect(exit.stdout).toContain('redis://user:')
    expect(exit.stdout).not.toMatch(/canary/)
    expect(exit.stdout).not.toContain(secret)
  })

  test('config print shows the resulting routes and scopes, and its output is a valid configuration', async () => {
    const file = fileWith(
      'routes: { files: null, one: { path: "/one/{workspaceId}", scope: a } }\nscopes: { a: A }',
    )
    const { stdout } = await runPosternHere(['config', 'print', '--config', file])
    const { routes, scopes } = parse(stdout) as { routes: Record<string, unknown>; scopes: object }
    expect(Object.keys(routes)).toEqual(['auth', 'workspace', 'one', 'files'])
    expect(routes).toMatchObject({ one: { path: '/one/{workspaceId}', scope: 'a' }, files: null })
    expect(Object.keys(scopes)).toEqual(['workspace:read', 'files:read', 'a'])
    expect((await runPosternHere(['config', 'print', '--config', fileWith(stdout)])).stdout).toBe(stdout)
  })

  test('help and version exit 0, an unknown command does not', async () => {
    expect((await runPostern(['--help'])).code).toBe(0)
    expect((await runPosternHere(['gateway', '--help'])).stdout).toContain('--upstream-url')
    expect((await runPosternHere(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+/)
    expect((await runPosternHere(['bake'])).code).toBe(64)
  })

  test('openapi prints a document of the configured routes', async () => {
    const document = JSON.parse((await runPostern(['openapi'])).stdout) as { openapi: string; paths: object }
    expect(document.openapi).toBe('3.1.0')
    expect(Object.keys(document.paths)).toEqual([
      '/api/v1/auth',
      '/api/v1/workspaces/{workspaceId}',
      '/api/v1/workspaces/{workspaceId}/files',
    ])
  })
})

describe('with all parts running', () => {
  let world: World
  let key: IssuedKey
  let directory: string
  const WORKSPACE = '/api/v1/workspaces/ws_1'

  beforeAll(async () => {
    world = await startWorld()
    key = await world.issue()
    directory = await mkdtemp(join(tmpdir(), 'postern-running-'))
  })
  afterAll(async () => {
    await world.stop()
    await rm(directory, { recursive: true, force: true })
  })
  beforeEach(() => world.upstream.reset())

  test('a gateway of a region says which, in /readyz and metrics', async () => {
    const gateway = await startPostern('gateway', { ...world.env, POSTERN_REGION: 'eu-1' })
    const [readiness, metrics] = await Promise.all(
      ['readyz', 'metrics'].map(async path => (await fetch(`${gateway.urls.ops}/${path}`)).text()),
    )
    expect(JSON.parse(readiness ?? '')).toMatchObject({ region: 'eu-1' })
    expect(metrics).toContain('\npostern_gateway_region_info{region="eu-1"} 1\n')
    await gateway.process.stop()
    expect(await (await fetch(`${world.gateway.urls.ops}/readyz`)).json()).not.toHaveProperty('region')
  })

  test('a port in use is reported without a stack trace', async () => {
    const exit = await runPostern(['gateway'], {
      ...world.env,
      POSTERN_GATEWAY_PORT: new URL(world.gateway.urls.gateway).port,
      POSTERN_OPS_PORT: '0',
    })
    expect(exit.code).toBe(1)
    expect(exit.stderr).toMatch(/^gateway\.port: port \d+ is already in use.*\n$/)
  })

  test('on SIGTERM it becomes unready at once, serves during the delay, completes requests in flight, and exits 0', async () => {
    const env = { ...world.env, POSTERN_DRAIN_DELAY_MS: HELD_MS }
    const gateway = await startPostern('gateway', env, [], [process.execPath, ...HOLDING_TIMES])
    const release = Promise.withResolvers<void>()
    world.upstream.hold = request => (request.includes('limit=9') ? release.promise : undefined)
    const waiting = new RawClient(gateway.urls.gateway)
    waiting.send(get(`${WORKSPACE}/files?limit=9`, key.secret))
    const kept = new RawClient(gateway.urls.gateway)
    kept.send(get(WORKSPACE, key.secret))
    await kept.answers(1)
    expect((await fetch(`${gateway.urls.ops}/readyz`)).status).toBe(200)

    gateway.process.child.kill('SIGTERM')
    await gateway.process.logged(line => line['msg'] === 'draining')
    gateway.process.child.kill('SIGTERM')
    expect((await fetch(`${gateway.urls.ops}/readyz`)).status).toBe(503)
    expect((await fetch(`${gateway.urls.ops}/livez`)).status).toBe(200)
    kept.send(get(WORKSPACE, key.secret))
    const [, late] = await kept.answers(2)
    expect([late?.status, late && field(late, 'connection')]).toEqual([200, 'close'])

    letPass(gateway.process)
    release.resolve()
    expect((await waiting.answers(1)).map(answer => answer.status)).toEqual([200])
    const exit = await gateway.process.exited
    expect([exit.code, exit.stderr]).toEqual([0, ''])
  })

  test('SIGTERM sent to npm reaches the program, and no process remains', async () => {
    const { spawn } = await import('node:child_process')
    const { createInterface } = await import('node:readline')
    const { once } = (await import('node:events')).default
    // Names of the tests themselves, such as POSTERN_TEST_REDIS, are no settings.
    const { PATH, HOME } = process.env
    const env = { PATH, HOME, ...world.env, POSTERN_GATEWAY_PORT: '0', POSTERN_OPS_PORT: '0' }
    const npm = spawn('npm', ['start', '--silent', '--', 'gateway'], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const lines = createInterface({ input: npm.stdout })
    const logged: string[] = []
    for await (const line of lines) {
      logged.push(line)
      if (line.includes('"msg":"listening"')) npm.kill('SIGTERM')
      if (line.includes('"msg":"drained"')) break
    }
    expect(logged.join('\n')).toContain('"msg":"drained"')
    await (npm.exitCode === null && npm.signalCode === null ? once(npm, 'close') : undefined)
    expect(npm.exitCode ?? npm.signalCode).not.toBeNull()
  })

  test('`listening` names the actual addresses', () => {
    for (const url of [world.gateway.urls.gateway, world.gateway.urls.ops, world.console.urls.console]) {
      expect(url).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*$/)
    }
  })

  test('the gateway starts and is ready while Redis, console and upstream are down, and names what is degraded', async () => {
    const gateway = await startPostern('gateway', {
      ...world.env,
      POSTERN_REDIS_URL: 'redis://127.0.0.1:1',
      POSTERN_KEY_SERVICE_URL: 'http://127.0.0.1:1',
      POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
    })
    const readiness = await fetch(`${gateway.urls.ops}/readyz`)
    expect(readiness.status).toBe(200)
    expect(await readiness.json()).toMatchObject({ redis: 'down', changes: 'disconnected' })
    const client = new RawClient(gateway.urls.gateway)
    client.send(get('/api/v1/auth', key.secret))
    const [answer] = await client.answers(1)
    expect([answer?.status, JSON.parse(answer?.body ?? '{}').code]).toEqual([503, 'key_store_unavailable'])
    expect(answer && field(answer, 'retry-after')).toMatch(/^\d+$/)
    await gateway.process.stop()
  })

  describe('a gateway with few slots and a secret in a file', () => {
    let gateway: Listening
    beforeAll(async () => {
      const file = join(directory, 'signing')
      await writeFile(file, `${world.env['POSTERN_KEYS_SIGNING_SECRETS']}\n`)
      const { POSTERN_KEYS_SIGNING_SECRETS: _, ...env } = world.env
      gateway = await startPostern('gateway', {
        ...env,
        POSTERN_KEYS_SIGNING_SECRETS_FILE: file,
        POSTERN_GATEWAY_MAX_IN_FLIGHT: '2',
        POSTERN_DRAIN_TIMEOUT_MS: '200',
      })
    })
    afterAll(() => gateway.process.stop())

    test('reads the secret', async () => {
      const client = new RawClient(gateway.urls.gateway)
      client.send(get('/api/v1/auth', key.secret))
      expect((await client.answers(1))[0]?.status).toBe(200)
    })

    test('rejects requests above the in-flight limit at once, without a lookup', async () => {
      const release = Promise.withResolvers<void>()
      world.upstream.hold = () => release.promise
      const before = world.upstream.requests.length
      const clients = [1, 2, 3].map(() => new RawClient(gateway.urls.gateway))
      for (const client of clients.slice(0, 2)) client.send(get(WORKSPACE, key.secret))
      await expect.poll(() => world.upstream.requests.length).toBe(before + 2)
      clients[2]?.send(get(WORKSPACE, key.secret))
      const [refused] = (await clients[2]?.answers(1)) ?? []
      expect([refused?.status, JSON.parse(refused?.body ?? '{}').code]).toEqual([503, 'overloaded'])
      release.resolve()
      for (const client of clients.slice(0, 2)) expect((await client.answers(1))[0]?.status).toBe(200)
    })

    test('aborts requests that hang during shutdown at the deadline', async () => {
      world.upstream.hold = () => new Promise(() => {})
      const hanging = new RawClient(gateway.urls.gateway)
      const before = world.upstream.requests.length
      hanging.send(get(WORKSPACE, key.secret))
      await expect.poll(() => world.upstream.requests.length).toBe(before + 1)
      expect((await gateway.process.stop('SIGTERM')).code).toBe(0)
    })
  })

  describe('a gateway with short time limits', () => {
    const HEADERS_TIMEOUT_MS = 1_000
    let gateway: Listening
    beforeAll(async () => {
      gateway = await startPostern('gateway', {
        ...world.env,
        POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: String(HEADERS_TIMEOUT_MS),
        POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: '300',
      })
    })
    afterAll(() => gateway.process.stop())

    test('rejects a client that sends its request too slowly, and disconnects one that sends nothing without a response', async () => {
      const isRejected = (client: RawClient) => client.received.includes(' 408 ')
      const { slow, silent } = await measured({
        what: 'a request that is sent too slowly',
        pids: () => [process.pid, gateway.process.child.pid ?? 0],
        measure: async () => {
          const clients = {
            slow: new RawClient(gateway.urls.gateway),
            silent: new RawClient(gateway.urls.gateway),
          }
          clients.slow.send('GET /api/v1/auth HTTP/1.1\r\nHost: gw\r\n')
          await Promise.all([clients.slow.untilClosed(), clients.silent.untilClosed()])
          return clients
        },
        // One whose first bytes come after the limit is silent, too.
        missedByMs: clients => (isRejected(clients.slow) ? 0 : HEADERS_TIMEOUT_MS),
      })
      expect((await slow.untilClosed()).map(answer => answer.status)).toEqual([408])
      expect(silent.received.length).toBe(0)
    })

    test('answers 504 for an unresponsive upstream, without its address', async () => {
      world.upstream.hold = () => new Promise(() => {})
      await expectFailure(gateway, 504, 'upstream_timeout')
    })
  })

  test('an unreachable upstream gives 502, without its address', async () => {
    const away = await startPostern('gateway', { ...world.env, POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1' })
    await expectFailure(away, 502, 'upstream_error')
    await away.process.stop()
  })

  async function expectFailure({ urls }: Listening, status: number, code: string): Promise<void> {
    const client = new RawClient(urls.gateway)
    client.send(get(WORKSPACE, key.secret))
    const [answer] = await client.answers(1)
    expect([answer?.status, JSON.parse(answer?.body ?? '{}').code]).toEqual([status, code])
    expect(answer?.body).not.toMatch(/127\.0\.0\.1|ECONN/)
  }

  test('a truncated upstream response never looks complete', async () => {
    world.upstream.answer = () =>
      'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a":'
    world.upstream.endAfterAnswer = true
    const client = new RawClient(world.gateway.urls.gateway)
    client.send(get(WORKSPACE, key.secret))
    expect(await client.untilClosed()).toEqual([])
    expect(client.received.toString()).not.toContain('\r\n0\r\n\r\n')
  })

  test('an operator adds a route and fixed headers by configuration alone', async () => {
    await writeFile(`${directory}/token`, 'svc-secret\n')
    await writeFile(
      `${directory}/postern.yaml`,
      `upstream:
  headers: { Authorization: Bearer svc, X-Service-Token: { file: ${directory}/token } }
scopes: { "members:read": List members }
routes:
  member:
    path: /api/v1/workspaces/{workspaceId}/members/{memberId}
    upstreamPath: /v2/{workspaceId}/people/{memberId}
    scope: members:read
    query: { view: { type: choice, values: [full, short] } }
`,
    )
    const gateway = await startPostern('gateway', {
      ...world.env,
      POSTERN_CONFIG: `${directory}/postern.yaml`,
    })
    const client = new RawClient(gateway.urls.gateway)
    client.send(get('/api/v1/workspaces/ws_1/members/m_1?view=short', key.secret))
    const [refused] = await client.answers(1)
    expect(refused?.status).toBe(403)
    await gateway.process.stop()

    const console = await startPostern('console', {
      ...Object.fromEntries(
        Object.entries(world.env).filter(([name]) => !/UPSTREAM|KEY_SERVICE_URL/.test(name)),
      ),
      POSTERN_CONFIG: `${directory}/postern.yaml`,
      POSTERN_ADMIN_TOKEN: 'admin-token-of-a-test',
      POSTERN_DATABASE_URL: 'sqlite::memory:',
    })
    const issued = await fetch(`${console.urls.console}/admin/v1/workspaces/ws_1/keys`, {
      method: 'POST',
      headers: { authorization: 'Bearer admin-token-of-a-test', 'content-type': 'application/json' },
      body: '{"name":"m","scopes":["members:read"]}',
    })
    expect(issued.status).toBe(201)
    const { secret } = (await issued.json()) as { secret: string }
    const second = await startPostern('gateway', {
      ...world.env,
      POSTERN_KEY_SERVICE_URL: console.urls.internal,
      POSTERN_CONFIG: `${directory}/postern.yaml`,
    })
    const holder = new RawClient(second.urls.gateway)
    holder.send(get('/api/v1/workspaces/ws_1/members/m_1?view=short', secret))
    expect((await holder.answers(1))[0]?.status).toBe(200)
    const request = world.upstream.requests.at(-1) ?? ''
    expect(request).toMatch(/^GET \/v2\/ws_1\/people\/m_1\?view=short HTTP\/1\.1\r\n/)
    expect(request.toLowerCase()).toContain('authorization: bearer svc\r\n')
    expect(request.toLowerCase()).toContain('x-service-token: svc-secret\r\n')
    await Promise.all([second.process.stop(), console.process.stop()])
  })
})
