import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PrepareReload } from '../../src/config/reloadable.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { type RunningConsole, startConsole } from '../support/console.ts'
import { readMessage } from '../support/messages.ts'
import { openDatabase } from '../support/open-database.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
const request = { name: 'build server', scopes: ['workspace:read'] }

describe.skipIf(!has(POSTGRES))('a console on PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())

  const issue = async ({ send }: RunningConsole) => {
    const { status, body } = await send('POST', KEYS, request)
    expect(status).toBe(201)
    return body
  }
  const revoke = ({ send }: RunningConsole, id: string) => send('POST', `/admin/v1/keys/${id}/revoke`)

  test('that starts with three others migrates the schema once', async () => {
    const url = await server.database()
    const databases = await Promise.all(Array.from({ length: 4 }, () => openDatabase(url)))
    const [first] = databases
    const applied = await first?.reader.selectFrom('kysely_migration').select('name').execute()
    const names = applied?.map(({ name }) => name) ?? []
    expect(names).toContain('0001_first_tables')
    expect(names).toEqual([...new Set(names)])
    for (const database of databases) await database.close()
  })

  test('refuses a schema of a newer Postern, and says what to do', async () => {
    const url = await server.database()
    const database = await openDatabase(url)
    await sql`insert into kysely_migration values ('9999_from_the_future', '2030-01-01')`.execute(
      database.writer,
    )
    await database.close()
    await expect(openDatabase(url)).rejects.toThrow(/newer Postern.*9999.*Start that newer version/)
  })

  test('with rejected credentials says so, without the password', async () => {
    const url = new URL(await server.database())
    url.password = 'hunter2'
    const refusal = await openDatabase(url.href).catch((error: unknown) => error)
    expect(String(refusal)).toMatch(/cannot reach PostgreSQL: .*authentication failed/)
    const { inspect } = await import('node:util')
    expect(inspect(refusal, { depth: 9 })).not.toContain('hunter2')
  })

  test('signs in with a new password where the old one is none any more, and stays as it was until then', async () => {
    const url = new URL(await server.database())
    const admin = await openDatabase(url.href)
    const role = `console_${randomBytes(4).toString('hex')}`
    await sql`create role ${sql.id(role)} login superuser password 'the first'`.execute(admin.writer)
    Object.assign(url, { username: role, password: 'the first' })
    const prepared: PrepareReload<string>[] = []
    const database = await openDatabase(url.href, { onReload: prepare => prepared.push(prepare) })
    const who = async () => {
      const { rows } = await sql<{ name: string }>`select current_user as name`.execute(database.reader)
      return rows[0]?.name
    }
    await who()
    await sql`alter role ${sql.id(role)} password 'the second'`.execute(admin.writer)
    const endAll = sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${role}`
    await endAll.execute(admin.writer)
    await until('it is refused', () =>
      who().then(
        () => false,
        (error: unknown) => /password authentication failed/.test(String(error)),
      ),
    )
    url.password = 'the second'
    for (const prepare of prepared) prepare(url.href)()
    expect(await who()).toBe(role)
    await database.close()
    await admin.close()
  })

  test('returns times as numbers', async () => {
    const { reader, close } = await openDatabase(await server.database())
    const { rows } = await sql<{
      at: number
    }>`select 1795163696789::bigint as at, count(*) from keys`.execute(reader)
    expect(rows).toEqual([{ at: 1_795_163_696_789, count: 0 }])
    await close()
  })

  test('does not let a change wait for ever: a statement that is held up fails, and the next one works', async () => {
    const url = await server.database()
    const running = await startConsole({ databaseUrl: url })
    const { key } = await issue(running)
    const other = await openDatabase(url)
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
    const { promise: locked, resolve: hasLock } = Promise.withResolvers<void>()
    const holding = other.writer.transaction().execute(async tx => {
      await sql`select * from keys for update`.execute(tx)
      hasLock()
      await held
    })
    await locked
    const answer = await revoke(running, key.id)
    expect({ status: answer.status, code: answer.body.code }).toEqual({
      status: 503,
      code: 'database_unavailable',
    })
    letGo()
    await holding.catch(() => {})
    await other.close()
    expect((await revoke(running, key.id)).body.key.state).toBe('revoked')
  })

  test('survives the termination of all its connections', async () => {
    const url = await server.database()
    const running = await startConsole({ databaseUrl: url })
    const { key } = await issue(running)
    const other = await openDatabase(url)
    const end = sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`
    await end.execute(other.reader)
    await until('it works again', async () => (await revoke(running, key.id)).status === 200)
    await until('it is ready', async () => (await running.health()).database === 'ok')
    await other.close()
  })

  test('survives the end of a connection in the middle of a transaction, while nothing is asked on it', async () => {
    const { writer, reader, close } = await openDatabase(await server.database())
    const others = sql<{ pid: number }>`
      select pid from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and state = 'idle in transaction'`
    const outcome = await writer
      .transaction()
      .execute(async tx => {
        await sql`select 1`.execute(tx)
        const [{ pid } = { pid: 0 }] = (await others.execute(reader)).rows
        await sql`select pg_terminate_backend(${pid})`.execute(reader)
        await until('it has ended', async () => (await others.execute(reader)).rows.length === 0)
        await new Promise(setImmediate)
        return sql`select 1`.execute(tx)
      })
      .catch((error: unknown) => error)
    expect(outcome).toBeInstanceOf(Error)
    await sql`select 1`.execute(writer)
    await close()
  })

  test('holds few connections under many concurrent requests', async () => {
    const url = await server.database()
    const running = await startConsole({ databaseUrl: url })
    const answers = await Promise.all(Array.from({ length: 200 }, () => running.send('POST', KEYS, request)))
    expect(answers.filter(answer => answer.status === 201)).toHaveLength(200)
    // Not as a console: its own connections, one of which closes after the migration, would be counted, too.
    const observer = new pg.Client({ connectionString: url, application_name: 'observer' })
    await observer.connect()
    const { rows } = await observer.query(
      "select count(*)::int from pg_stat_activity where datname = current_database() and application_name = 'postern-console'",
    )
    await observer.end()
    expect(rows).toEqual([{ count: expect.toSatisfy((count: number) => count >= 1 && count <= 10) }])
  })

  describe('together with another console', () => {
    test('announces changes that the other cannot', async () => {
      const url = await server.database()
      const [cutOff, well] = [new ScriptedAnnouncer(), new ScriptedAnnouncer()]
      cutOff.set('down')
      const first = await startConsole({ databaseUrl: url, parts: { announcer: cutOff } })
      await startConsole({ databaseUrl: url, parts: { announcer: well } })
      const { key, secret } = await issue(first)
      expect((await revoke(first, key.id)).body.announced).toBe(false)
      const change = { kind: 'change', digest: digestKey(secret), version: 2 }
      await until('the other one tells', () =>
        well.published.map(readMessage).some(message => message?.kind === 'change' && message.version === 2),
      )
      expect(well.published.map(readMessage)).toContainEqual(expect.objectContaining(change))
      await until('the answer says so', async () => (await revoke(first, key.id)).body.announced)
    })

    test('sends no heartbeat while a change of the other is unannounced', async () => {
      const url = await server.database()
      const [cutOff, refused] = [new ScriptedAnnouncer(), new ScriptedAnnouncer()]
      cutOff.set('down')
      const first = await startConsole({ databaseUrl: url, parts: { announcer: cutOff } })
      const second = await startConsole({ databaseUrl: url, parts: { announcer: refused } })
      const heartbeats = () =>
        refused.published.filter(text => readMessage(text)?.kind === 'heartbeat').length
      await until('a heartbeat is sent', () => heartbeats() > 0)
      refused.refusesWrites = true
      await issue(first)
      await until('it is noticed', () => second.log.some(line => line['reason'] === 'change_undelivered'))
      const before = heartbeats()
      const attempts = refused.refused
      await until('several attempts were made', () => refused.refused >= attempts + 5)
      expect(heartbeats()).toBe(before)
      refused.refusesWrites = false
      await until('heartbeats are sent again', () => heartbeats() > before)
    })

    test('announces all changes made while Redis was down, without waiting for the other', async () => {
      const redis = await RedisServer.absent()
      try {
        const url = await server.database()
        const options = { databaseUrl: url, redisUrl: redis.url }
        const [first, second] = [await startConsole(options), await startConsole(options)]
        const issued = await Promise.all(
          Array.from({ length: 100 }, (_, index) => issue(index % 2 ? first : second)),
        )
        await Promise.all(issued.map(({ key }, index) => revoke(index % 2 ? second : first, key.id)))
        await redis.revive()
        await until('every record is there', async () => (await redis.countRecords()) === 100)
        for (const { key } of issued) {
          await until('it is announced', async () => (await revoke(first, key.id)).body.announced)
        }
      } finally {
        await redis.stop()
      }
    })
  })
})
