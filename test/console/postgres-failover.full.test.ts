import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { DatabaseUnreachable } from '../../src/console/platform/database/database.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { STARVED_MS } from '../support/confirmed-by-all.ts'
import { type RunningConsole, startConsole } from '../support/console.ts'
import { measured } from '../support/measured-again.ts'
import { readMessage } from '../support/messages.ts'
import { openDatabase } from '../support/open-database.ts'
import { PostgresServer, startReplica } from '../support/postgres-server.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
/** A statement without an answer is given up after 6 s, and a client tries again. */
const FROZEN_BOUND_MS = 12_000
/** Without frozen servers no time limit is waited for. */
const PROMOTED_BOUND_MS = 5_000

const issue = async ({ send }: RunningConsole) => {
  const { status, body } = await send('POST', KEYS, { name: 'a', scopes: ['files:read'] })
  expect(status).toBe(201)
  return body
}
const revoke = async ({ send }: RunningConsole, id: string) =>
  (await send('POST', `/admin/v1/keys/${id}/revoke`)).status
const lookUp = async ({ send }: RunningConsole, digest: string) =>
  (await send('GET', `/internal/v1/keys/${digest}`)).status

describe.skipIf(!has(POSTGRES))('when PostgreSQL fails over', () => {
  const clean: (() => Promise<unknown>)[] = []
  let single: PostgresServer
  beforeAll(async () => {
    single = await PostgresServer.started()
  })
  afterAll(() => single.stop())
  afterEach(async () => {
    for (const step of clean.splice(0).reverse()) await step()
  })

  /** A primary and its replica, behind an address that leads to the primary. */
  async function replicated(settings: Readonly<Record<string, string>> = {}) {
    const primary = await PostgresServer.temporary()
    clean.push(() => primary.stop())
    const url = await primary.database()
    const replica = await startReplica(url, settings)
    clean.push(() => replica.stop())
    const replicaUrl = replica.urlOf(new URL(url).pathname.slice(1))
    const address = await TcpProxy.start(url)
    clean.push(() => address.stop())
    const through = new URL(url)
    through.port = String(address.port)
    return { primary, url, replica, replicaUrl, address, through: through.href }
  }

  async function queryAt(url: string, text: string): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: url })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query(text)).rows
    } finally {
      await client.end()
    }
  }

  const untilReplicated = (url: string, keys: number) =>
    until('the replica has the keys', async () => {
      // The table itself may be missing as yet.
      const [row] = await queryAt(url, 'select count(*)::int as count from keys').catch(() => [])
      return row?.['count'] === keys
    })

  /** @param boundMs in which time that a starved machine took does not count */
  const untilRevoked = (running: RunningConsole, id: string, boundMs: number) =>
    until('a revocation is accepted', async () => (await revoke(running, id)) === 200, boundMs)

  test('to a promoted replica, the next revocation after it is accepted', async () => {
    const { primary, replica, replicaUrl, address, through } = await replicated()
    const running = await startConsole({ databaseUrl: through })
    const { key } = await issue(running)
    await untilReplicated(replicaUrl, 1)
    await primary.kill()
    address.leadTo(replicaUrl)
    await until('writes fail', async () => (await revoke(running, key.id)) === 503)
    await replica.promote()
    await untilRevoked(running, key.id, PROMOTED_BOUND_MS)
    await until('it is ready', async () => (await running.health()).database === 'ok')
  })

  test('while the former primary hangs with open connections, a revocation is accepted within seconds', async () => {
    const { primary, replica, replicaUrl, address, through } = await replicated()
    const running = await startConsole({ databaseUrl: through })
    const keys = await Promise.all(Array.from({ length: 8 }, () => issue(running)))
    await untilReplicated(replicaUrl, keys.length)
    primary.freeze()
    clean.push(async () => primary.thaw())
    await replica.promote()
    address.leadTo(replicaUrl)
    const [first] = keys
    await untilRevoked(running, first?.key.id ?? '', FROZEN_BOUND_MS)
    // No other session to the former primary is used any more.
    for (const { key } of keys) expect(await revoke(running, key.id)).toBe(200)
    const lookups = await Promise.all(keys.map(({ secret }) => lookUp(running, digestKey(secret))))
    expect(lookups).toEqual(keys.map(() => 200))
  })

  test('and the address leads to a standby, which may be behind: no lookup is answered, and no heartbeat sent', async () => {
    const { url, replicaUrl, address, through } = await replicated()
    const announcer = new ScriptedAnnouncer()
    const running = await startConsole({ databaseUrl: through, parts: { announcer } })
    const { secret } = await issue(running)
    await untilReplicated(replicaUrl, 1)
    const heartbeats = () =>
      announcer.published.filter(text => readMessage(text)?.kind === 'heartbeat').length
    const isPause = ({ msg }: RunningConsole['log'][number]) => String(msg).startsWith('heartbeats ')
    await measured({
      what: 'heartbeats pause because of the standby',
      pids: () => [process.pid],
      measure: async () => {
        const earlier = heartbeats()
        address.leadTo(url)
        await until('a heartbeat is sent', () => heartbeats() > earlier)
        address.leadTo(replicaUrl)
        address.cut()
        const reason = () => running.log.findLast(isPause)?.['reason']
        await until('heartbeats pause', () => reason() !== undefined)
        return reason()
      },
      // The log names the reason for which they paused first: a starved console may have been late already.
      missedByMs: reason => (reason === 'failed' ? 0 : STARVED_MS),
    })
    const before = heartbeats()
    expect(await lookUp(running, digestKey(secret))).toBe(503)
    expect((await running.health()).database).toBe('failed')
    expect(running.log.findLast(({ reason }) => reason === 'failed')?.['cause']).toMatch(/standby/)
    expect(heartbeats()).toBe(before)
    address.leadTo(url)
    await until('heartbeats are sent again', () => heartbeats() > before)
    expect(await lookUp(running, digestKey(secret))).toBe(200)
  })

  test('and ends every session, no request notices', async () => {
    const url = await single.migratedDatabase()
    const running = await startConsole({ databaseUrl: url })
    const keys = await Promise.all(Array.from({ length: 8 }, () => issue(running)))
    for (const { key, secret } of keys) {
      await queryAt(
        url,
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
      )
      expect(await lookUp(running, digestKey(secret))).toBe(200)
      expect(await revoke(running, key.id)).toBe(200)
    }
  })

  test('and ends a session in the middle of a change, the change is made, and once', async () => {
    const url = await single.migratedDatabase()
    const running = await startConsole({ databaseUrl: url })
    const { key } = await issue(running)
    const holder = new pg.Client({ connectionString: url })
    await holder.connect()
    clean.push(() => holder.end())
    await holder.query('begin; select * from audit_head for update')
    const revoked = revoke(running, key.id)
    const waiting = `from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await until('it waits for the lock', async () => (await queryAt(url, `select pid ${waiting}`)).length > 0)
    await queryAt(url, `select pg_terminate_backend(pid) ${waiting}`)
    await holder.query('rollback')
    expect(await revoked).toBe(200)
    const entries = await queryAt(
      url,
      `select action from audit where key_id = '${key.id}' order by sequence`,
    )
    expect(entries).toEqual([{ action: 'key.issued' }, { action: 'key.revoked' }])
  })

  test('a console that starts waits for a server that still starts, and for a standby', async () => {
    const { url, replica, replicaUrl } = await replicated()
    await (await openDatabase(url)).close()
    await untilReplicated(replicaUrl, 0)
    const refusal = await openDatabase(replicaUrl).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(DatabaseUnreachable)
    expect(String(refusal)).toMatch(/database\.url: cannot reach PostgreSQL: this server is a standby/)
    await replica.promote()
    const { writer, close } = await openDatabase(replicaUrl)
    await sql`delete from outbox`.execute(writer)
    await close()
    const { through, replicaUrl: closed } = await replicated({ hot_standby: 'off' })
    expect(through).toBeDefined()
    const starting = await openDatabase(closed).catch((error: unknown) => error)
    expect(starting).toBeInstanceOf(DatabaseUnreachable)
    expect(String(starting)).toMatch(/not accepting connections|starting up/)
  })
})
