import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { PosternProcess, runPostern } from '../support/postern-process.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { ADMIN_TOKEN, issue, readiness, recovery, SHARED } from './starts.ts'

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
      ...SHARED,
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

  test('waits, stays alive and unready, logs what it waits for, and serves once the database is up', async () => {
    const { url, port, real } = await elsewhere()
    const { env, opsUrl } = await settings(url)
    const console = new PosternProcess(['console'], env)
    onTestFinished(async () => void (await console.stop()))
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
    onTestFinished(async () => void (await console.stop()))
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
      expect(exit.code).toBe(78)
      expect(exit.stderr).toMatch(/database\.url: cannot reach PostgreSQL: /)
      expect(exit.stderr + exit.stdout).not.toContain('hunter2')
    }
  })
})
