import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { freePort } from '../support/free-port.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { type Listening, PosternProcess, startPostern } from '../support/postern-process.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { GO, has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'

interface Service {
  readonly command: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly healthcheck: { readonly test: readonly string[] }
}
const FILE = readFileSync(new URL('../../compose.yaml', import.meta.url), 'utf8')
const { services } = parse(FILE, { merge: true }) as {
  services: Record<'tokens' | 'gateway' | 'console' | 'redis' | 'postgres' | 'upstream', Service>
}
/** The first command of a user, which the comment at the head of the file shows. */
const ISSUE = /exec console postern (keys issue .*)/.exec(FILE)?.[1] ?? ''
const PATH = /curl .*8080(\/\S+)/.exec(FILE)?.[1] ?? ''

describe.skipIf(!has(POSTGRES))('the services of compose.yaml, each as a process', () => {
  const secrets = mkdtempSync(join(tmpdir(), 'postern-compose-'))
  const started: PosternProcess[] = []
  let redis: RedisServer
  let postgres: PostgresServer
  let keyConsole: Listening
  let gateway: Listening
  let upstreamPort = 0
  let databaseUrl = ''

  /** Runs a script of a service, as `node --eval` does in its container. */
  function run(script: string): PosternProcess {
    const running = new PosternProcess(['--eval', script], {}, [process.execPath])
    started.push(running)
    return running
  }

  /** The environment of a service, with addresses of this machine in place of names that containers have for each other. */
  function environmentOf({ environment }: Service, addresses: Readonly<Record<string, string>>) {
    return Object.fromEntries(
      Object.entries(environment).map(([name, value]) => {
        const local = Object.entries(addresses).reduce((text, [from, to]) => text.replace(from, to), value)
        return [name, local.replace('/run/postern', secrets).replace(/^::$/, '127.0.0.1')]
      }),
    )
  }

  beforeAll(async () => {
    const [program, ...redisSettings] = services.redis.command
    expect(program).toBe('redis-server')
    redis = await RedisServer.start({ settings: redisSettings })
    postgres = await PostgresServer.started()

    const [makeSecrets = ''] = services.tokens.command
    const tokens = run(makeSecrets.replace('/var/lib/postern', secrets))
    expect(await tokens.exited).toMatchObject({ code: 0, stderr: '' })

    upstreamPort = await freePort()
    const [serve = ''] = services.upstream.command
    run(serve.replace('.listen(3000)', `.listen(${upstreamPort}, '127.0.0.1')`))

    databaseUrl = await postgres.database()
    const addresses = {
      'redis:6379': `127.0.0.1:${redis.port}`,
      'http://upstream:3000': `http://127.0.0.1:${upstreamPort}`,
      'postgres://postern:postern@postgres/postern': databaseUrl,
    }
    const [consoleCommand = '', ...none] = services.console.command
    expect(none).toEqual([])
    keyConsole = await startPostern(consoleCommand, environmentOf(services.console, addresses))
    const [gatewayCommand = ''] = services.gateway.command
    gateway = await startPostern(
      gatewayCommand,
      environmentOf(services.gateway, { ...addresses, 'http://console:8082': keyConsole.urls.internal }),
    )
    started.push(keyConsole.process, gateway.process)
    await until('the gateway is ready', async () => (await fetch(`${gateway.urls.ops}/readyz`)).ok)
    await until('the upstream listens', () =>
      fetch(`http://127.0.0.1:${upstreamPort}`).then(
        () => true,
        () => false,
      ),
    )
  })
  afterAll(async () => {
    for (const running of started) if (running.child.exitCode === null) await running.stop()
    await redis?.stop()
    await postgres?.stop()
    rmSync(secrets, { recursive: true, force: true })
  })

  test('secrets are made once, for their user alone', async () => {
    const files = ['admin-token', 'key-service-token', 'signing-secret']
    const textOf = (name: string) => readFileSync(join(secrets, name), 'utf8')
    expect(readdirSync(secrets).toSorted()).toEqual(files)
    expect(files.map(name => (statSync(join(secrets, name)).mode & 0o777).toString(8))).toEqual(
      files.map(() => '600'),
    )
    const before = files.map(textOf)
    const [again = ''] = services.tokens.command
    expect(await run(again.replace('/var/lib/postern', secrets)).exited).toMatchObject({ code: 0 })
    expect(files.map(textOf)).toEqual(before)
  })

  test('the console uses the user, password and database that PostgreSQL creates', () => {
    const { username, password, hostname, pathname } = new URL(
      services.console.environment['POSTERN_DATABASE_URL'] ?? '',
    )
    const { POSTGRES_USER = '', POSTGRES_PASSWORD } = services.postgres.environment
    expect([username, password, hostname]).toEqual([POSTGRES_USER, POSTGRES_PASSWORD, 'postgres'])
    // The image names the database after the user if nothing else is set.
    expect(pathname).toBe(`/${POSTGRES_USER}`)
  })

  interface Here {
    readonly ops?: string
    readonly upstream?: number
    /** Options that name the port of another program. */
    readonly port?: readonly string[]
  }

  /** Runs a healthcheck, with addresses of this machine in place of those in the container. @returns its exit code */
  function checkHealth(name: keyof typeof services, { ops = '', upstream = 0, port = [] }: Here) {
    const [, program = '', ...args] = services[name].healthcheck.test
    const local = args.map(part =>
      part.replace('http://127.0.0.1:9090', ops).replace(':3000', `:${upstream}`),
    )
    const here = program === '/nodejs/bin/node' ? process.execPath : program
    return spawnSync(here, [...port, ...local], { timeout: 10_000 }).status
  }

  test('each healthcheck succeeds for a service that answers, and fails for one that does not', async () => {
    const closed = await freePort()
    const nowhere = { ops: `http://127.0.0.1:${closed}`, upstream: closed }
    expect(checkHealth('gateway', gateway.urls)).toBe(0)
    expect(checkHealth('console', keyConsole.urls)).toBe(0)
    expect(checkHealth('upstream', { upstream: upstreamPort })).toBe(0)
    for (const name of ['gateway', 'console', 'upstream'] as const) expect(checkHealth(name, nowhere)).toBe(1)
    // The answer is not 2xx, as while a process is not ready.
    expect(checkHealth('gateway', { ops: `${gateway.urls.ops}/none` })).toBe(1)

    expect(checkHealth('redis', { port: ['-p', String(redis.port)] })).toBe(0)
    expect(checkHealth('redis', { port: ['-p', String(closed)] })).toBe(1)
    await redis.admin.config('SET', 'requirepass', 'x')
    expect(checkHealth('redis', { port: ['-p', String(redis.port)] })).toBe(1)
    await redis.admin.config('SET', 'requirepass', '')

    expect(checkHealth('postgres', { port: ['--port', new URL(databaseUrl).port] })).toBe(0)
    expect(checkHealth('postgres', { port: ['--port', String(closed)] })).toBe(2)
  })

  test('the first key of the file’s head reaches the sample upstream, and is refused once it is revoked', async () => {
    const local = (text: string) =>
      text.replace('http://127.0.0.1:8081', keyConsole.urls.console).replace('/run/postern', secrets)
    const { POSTERN_CONSOLE_URL = '', POSTERN_ADMIN_TOKEN_FILE = '' } = services.console.environment
    const environment = {
      POSTERN_CONSOLE_URL: local(POSTERN_CONSOLE_URL),
      POSTERN_ADMIN_TOKEN_FILE: local(POSTERN_ADMIN_TOKEN_FILE),
    }
    const issued = await runPosternHere(ISSUE.split(/\s+/), environment)
    expect(issued).toMatchObject({ code: 0, stdout: expect.stringMatching(/^wsk_/) })
    const headers = { authorization: `Bearer ${issued.stdout.trim()}` }
    const call = () => fetch(`${gateway.urls.gateway}${PATH}`, { headers })
    const response = await call()
    expect([response.status, await response.json()]).toEqual([200, { path: PATH, workspace: 'ws_1' }])

    const { stdout: id } = await runPosternHere(['keys', 'list', '--workspace', 'ws_1', '-q'], environment)
    expect(await runPosternHere(['keys', 'revoke', id.trim(), '--yes'], environment)).toMatchObject({
      code: 0,
    })
    expect((await call()).status).toBe(401)
  })
})

describe.skipIf(!has(GO))('the parser of docker compose', () => {
  test('reads compose.yaml: every field, reference and dependency is valid', () => {
    const parser = 'github.com/compose-spec/compose-go/v2/cmd@v2.16.2'
    const folder = fileURLToPath(new URL('../../', import.meta.url))
    const parsed = spawnSync('go', ['run', parser, 'compose.yaml'], { cwd: folder, encoding: 'utf8' })
    expect(parsed.stderr.replaceAll(/^go: downloading .*\n/gm, '')).toBe('')
    expect(parsed.status).toBe(0)
    const project = parse(parsed.stdout) as { services: Record<string, { stop_grace_period?: string }> }
    expect(project.services['gateway']?.stop_grace_period).toBe('40s')
  }, 300_000)
})
