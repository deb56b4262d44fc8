import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type EveryRoute, startWithEveryRoute } from '../support/every-route.ts'
import { openDatabase } from '../support/open-database.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { type Direction, TcpProxy } from '../support/tcp-proxy.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'
import {
  databaseErrors,
  issueKey,
  routesThatHideIt,
  untilDatabaseIs,
} from './database-unavailable.contract.ts'

/** A statement is given 5 s, an answer 6 s, a connection 3 s. */
const BOUND_MS = 12_000
const KEYS = '/admin/v1/workspaces/ws_1/keys'

describe.skipIf(!has(POSTGRES))('while PostgreSQL', () => {
  let server: PostgresServer
  const unhandled: unknown[] = []
  const note = (error: unknown) => void unhandled.push(error)
  beforeAll(async () => {
    server = await PostgresServer.started()
    process.on('unhandledRejection', note)
  })
  afterAll(async () => {
    process.off('unhandledRejection', note)
    await server.stop()
    expect(unhandled).toEqual([])
  })

  async function setUp() {
    const direct = await server.migratedDatabase()
    const proxy = await TcpProxy.start(direct)
    let stopped: Promise<void> | null = null
    const refuse = () => {
      proxy.resume()
      stopped ??= proxy.stop()
      return stopped
    }
    onTestFinished(refuse)
    const url = new URL(direct)
    url.port = String(proxy.port)
    const running = await startWithEveryRoute(url.href)
    const { id } = (await issueKey(running)).body.key
    return { direct, proxy, refuse, running, keyId: id }
  }

  /** A client of the test, which holds locks. */
  async function clientOf(url: string): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    onTestFinished(() => client.end())
    return client
  }

  test('refuses connections, every page and every call that needs it answers 503, and says when to try again', async () => {
    const { refuse, running, keyId } = await setUp()
    await refuse()
    expect(await routesThatHideIt(running, keyId)).toEqual([])
    await untilDatabaseIs('failed', running)
    expect(Object.keys(await databaseErrors(running))).toEqual(['unreachable'])
  })

  test('does not answer, a request is answered with 503 within seconds, and the next one after it answers again', async () => {
    const { proxy, running, keyId } = await setUp()
    for (const direction of ['forth', 'back'] as const) proxy.hold(direction)
    const beganMs = performance.now()
    const token = running.send('GET', '/admin/v1/keys')
    const answers = await Promise.all([
      token,
      issueKey(running),
      running.send('POST', `/admin/v1/keys/${keyId}/revoke`),
      running.send('GET', `/internal/v1/keys/${'a'.repeat(64)}`),
      running.person.call('GET', '/keys'),
    ])
    expect(answers.map(({ status, body }) => `${status} ${body.code}`)).toEqual(
      answers.map(() => '503 database_unavailable'),
    )
    expect(performance.now() - beganMs).toBeLessThan(BOUND_MS)
    await untilDatabaseIs('failed', running)
    expect((await databaseErrors(running))['timeout']).toBeGreaterThan(0)
    proxy.resume()
    await until('it is used again', async () => (await issueKey(running)).status === 201)
    await untilDatabaseIs('ok', running)
  })

  test('takes no writes, as a standby does, reads and pages continue and readiness says failed', async () => {
    const { direct, running, keyId } = await setUp()
    const admin = await clientOf(direct)
    const set = (state: string) =>
      admin.query(`alter database ${admin.database} set default_transaction_read_only = ${state}`)
    await set('on')
    await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()`,
    )
    await until('its writes fail', async () => (await issueKey(running)).status === 503)
    for (const answer of [
      await issueKey(running),
      await running.send('POST', `/admin/v1/keys/${keyId}/revoke`),
    ]) {
      expect([answer.status, answer.body.code, answer.headers['retry-after']]).toEqual([
        503,
        'database_unavailable',
        '2',
      ])
    }
    expect((await running.send('GET', KEYS)).body.keys).toMatchObject([{ id: keyId, state: 'active' }])
    expect((await running.person.browser.send('GET', '/workspaces/ws_1/keys')).status).toBe(200)
    await untilDatabaseIs('failed', running)
    expect((await databaseErrors(running))['read_only']).toBeGreaterThan(0)
    await admin.query('set default_transaction_read_only = off')
    await set('off')
    // Sessions that answered so are not used again: no write waits for an operator to end them.
    expect((await issueKey(running)).status).toBe(201)
  })

  test('confirms a commit and then refuses what follows it, the caller gets the key and its secret, once', async () => {
    const { direct, running, keyId } = await setUp()
    const admin = await clientOf(direct)
    await admin.query('begin; lock table audit_head, gateways, confirmations in access exclusive mode')
    const issued = await issueKey(running)
    const rotated = running.send('POST', `/admin/v1/keys/${keyId}/rotate?wait=1`)
    expect([issued.status, typeof issued.body.secret]).toEqual([201, 'string'])
    const { status, body } = await rotated
    expect([status, typeof body.secret, body.gateways]).toEqual([201, 'string', null])
    await admin.query('rollback')
    await until('the entries are in the chain', async () => {
      const { rows } = await admin.query('select count(*)::int as count from audit_queue')
      return rows[0].count === 0
    })
    const { rows } = await admin.query(`select action from audit where key_id <> '' order by sequence`)
    expect(rows.map(({ action }) => action)).toEqual(['key.issued', 'key.issued', 'key.rotated'])
  })

  test.each([
    ['issued', (running: EveryRoute) => issueKey(running, { 'idempotency-key': 'one' }), 'issued'],
    [
      'rotated',
      (running: EveryRoute, id: string) =>
        running.send('POST', `/admin/v1/keys/${id}/rotate`, {}, { headers: { 'idempotency-key': 'one' } }),
      'rotated',
    ],
  ])(
    'loses the answer to a commit, a key that was %s is named in the 503, and a retry finds it',
    async (_, change) => {
      const world = await setUp()
      const { running, keyId } = world
      const before = (await running.send('GET', KEYS)).body.keys.length
      const first = loseCommit(world, () => change(running, keyId), before + 1)
      const { status, body, headers } = await first
      expect([status, body.code, Number(headers['retry-after']) > 0]).toEqual([
        503,
        'database_unavailable',
        true,
      ])
      const { keyId: named } = body as unknown as { keyId: string }
      expect(body.error).toContain(named)
      expect((await running.send('GET', `/admin/v1/keys/${named}`)).body.key.state).toBe('active')
      const retried = await change(running, keyId)
      expect([retried.status, retried.headers['idempotency-replayed']]).toEqual([201, 'true'])
      expect([retried.body.key.id, retried.body.secret]).toEqual([named, null])
      expect((await running.send('GET', KEYS)).body.keys).toHaveLength(before + 1)
    },
  )

  test('loses the answer to a commit, the 503 names an admin token, and the form’s page leads to the key', async () => {
    const world = await setUp()
    const { running } = world
    const body = { name: 'a', permissions: ['keys:read'], expiresInDays: 1 }
    const token = await loseCommit(world, () => running.send('POST', '/admin/v1/tokens', body), null)
    expect(token.status).toBe(503)
    const { tokenId } = token.body as unknown as { tokenId: string }
    expect((await running.send('POST', `/admin/v1/tokens/${tokenId}/revoke`)).status).toBe(200)

    const { browser } = running.person
    const path = '/workspaces/ws_1/keys/new'
    const page = await browser.send('GET', path)
    const hidden = [...page.text.matchAll(/name="(_csrf|once)" value="([^"]*)"/g)].map(([, name, value]) => [
      name,
      value,
    ])
    const form = { ...Object.fromEntries(hidden), name: 'b', scopes: 'files:read', expiry: '90' }
    const answer = await loseCommit(world, () => browser.post(path, form), 2)
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '2'])
    expect(answer.text).toContain('Outcome unknown')
    const link = /href="(\/workspaces\/ws_1\/keys\/key_\w+)"/.exec(answer.text)?.[1] ?? ''
    const shown = await browser.send('GET', link)
    expect([shown.status, shown.text.includes('Revoke')]).toEqual([200, true])
  })

  /** Commits a change whose answer never arrives. @param keys how many there are then; null where the change makes none */
  async function loseCommit<Result>(
    { proxy, direct, running }: Awaited<ReturnType<typeof setUp>>,
    change: () => Promise<Result>,
    keys: number | null,
  ): Promise<Result> {
    const { reader, close } = await openDatabase(direct)
    // The outbox commits on another connection: held then, this change would get no answer to its statements.
    let writing: object | null = null
    proxy.onPiece = (direction: Direction, bytes, connection) => {
      if (direction === 'back') return
      const isWrite = bytes.includes('insert into "keys"') || bytes.includes('insert into "admin_tokens"')
      if (isWrite) writing = connection
      if (connection === writing && bytes.includes('commit')) proxy.hold('back')
    }
    const changing = change()
    await until('the change is committed', async () => {
      if (keys === null) return (await reader.selectFrom('admin_tokens').select('id').execute()).length > 0
      return (await reader.selectFrom('keys').select('id').execute()).length === keys
    })
    proxy.onPiece = () => {}
    proxy.cut()
    proxy.resume()
    await close()
    const answer = await changing
    // Connections that were cut while they were idle are gone then.
    await untilDatabaseIs('ok', running)
    return answer
  }
})
