import { once } from 'node:events'
import { createServer } from 'node:net'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { DatabaseUnreachable } from '../../src/console/platform/database/database.ts'
import { DatabaseUnavailable } from '../../src/console/platform/database/database-unavailable.ts'
import { countConsoles, openPostgresForCopy } from '../../src/console/platform/database/postgres/database.ts'
import { openDatabase as openMigrated, openReadOnly } from '../../src/console/platform/open-database.ts'
import { MIGRATIONS } from '../../src/console/schema.ts'
import { StartError } from '../../src/domain/errors.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { keepAliveMs } from '../support/tcp-table.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { settled, until } from '../support/until.ts'
import {
  type Connection,
  countChanges,
  hold,
  insertChange,
  openWatched,
  POOLS,
  pidOf,
  readValue,
} from '../support/watched-sessions.ts'
import { describeQueryParts } from './query-parts.contract.ts'

/** Kysely's. */
const LOCK_OF_MIGRATIONS = '3853314791062309107'

describe.skipIf(!has(POSTGRES))('connections of a console to PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  const setUp = async () => openWatched(await server.migratedDatabase())
  describeQueryParts('PostgreSQL', () => server.migratedDatabase())

  test('each pool has few sessions, under the name and with the settings of a console, until it closes', async () => {
    const { close, sessions, ...database } = await setUp()
    const most = { writer: 4, reader: 4, announcing: 2 }
    for (const pool of POOLS) {
      const pids = await Promise.all(
        Array.from({ length: 12 }, () =>
          readValue(database[pool], '(select pg_backend_pid() from pg_sleep(0.02))'),
        ),
      )
      expect(new Set(pids).size).toBe(most[pool])
      const settings = ['statement_timeout', 'idle_in_transaction_session_timeout', 'jit', 'application_name']
      const values = await Promise.all(
        settings.map(setting => readValue(database[pool], `current_setting('${setting}')`)),
      )
      expect(values).toEqual(['5s', '6s', 'off', 'postern-console'])
    }
    await until('ten are left', async () => (await sessions()).length === 10)
    await close()
    await until('they have ended', async () => (await sessions()).length === 0)
  })

  /** A server that accepts connections, and sends nothing. */
  async function startSilentServer() {
    const silent = createServer()
    await once(silent.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void silent.close())
    // A server on a port has an address that is an object.
    const { port } = silent.address() as { port: number }
    return { port, url: `postgres://u:secret@127.0.0.1:${port}/d`, connected: once(silent, 'connection') }
  }

  test.skipIf(process.platform !== 'linux')(
    'the kernel probes each connection, on which nothing may be sent for hours',
    async () => {
      const { port, url, connected } = await startSilentServer()
      const opening = openMigrated(url, MIGRATIONS).catch(() => {})
      const [socket] = await connected
      await until('it is to be probed', () => keepAliveMs(socket.remotePort, port))
      socket.destroy()
      await opening
    },
  )

  test('a console sees whether there is an index for parts of texts', async () => {
    const { direct, hasTextIndex, query } = await setUp()
    const [found] = await query(`select to_regclass('keys_by_text') is not null as exists`)
    expect(hasTextIndex).toBe(found?.['exists'])
    await query('drop index if exists keys_by_text')
    const without = await openMigrated(direct, MIGRATIONS)
    onTestFinished(without.close)
    expect(without.hasTextIndex).toBe(false)
  })

  test('what only reads has one session without a time limit, which cannot write', async () => {
    const { direct: url, end } = await setUp()
    const connection = await openReadOnly(url)
    onTestFinished(() => connection.destroy())
    const settings = ['statement_timeout', 'jit', 'application_name', 'default_transaction_read_only']
    const values = await Promise.all(
      settings.map(setting => readValue(connection, `current_setting('${setting}')`)),
    )
    expect(values).toEqual(['0', 'off', 'postern-audit', 'on'])
    const pids = await Promise.all([1, 2, 3].map(() => pidOf(connection)))
    expect(new Set(pids).size).toBe(1)
    await expect(insertChange(connection)).rejects.toMatchObject({ kind: 'read_only' })
    await expect(connection.transaction().execute(insertChange)).rejects.toMatchObject({ kind: 'read_only' })
    await end(pids[0] ?? 0)
    const [next, again] = [await pidOf(connection), await pidOf(connection)]
    expect([next === pids[0], again === next]).toEqual([false, true])
  })

  test('a copy has one session without a time limit, and sees the consoles beside it', async () => {
    const { direct: url, reader, writer } = await setUp()
    const copy = await openPostgresForCopy(url, MIGRATIONS)
    onTestFinished(() => copy.destroy())
    await Promise.all([pidOf(reader), pidOf(writer)])
    const settings = ['statement_timeout', 'jit', 'application_name']
    const values = await Promise.all(
      settings.map(setting => readValue(copy, `current_setting('${setting}')`)),
    )
    expect(values).toEqual(['0', 'off', 'postern-database'])
    await insertChange(copy)
    await until('it sees both', async () => (await countConsoles(copy)) === 2)
  })

  test('texts compare byte by byte, in each table, under any locale of the database', async () => {
    const { query } = await setUp()
    const columns =
      await query(`select collation_name as name, count(*)::int as count from information_schema.columns
      where table_schema = 'public' and data_type = 'text' and table_name not like 'kysely%' group by 1`)
    expect(columns).toEqual([{ name: 'C', count: expect.toSatisfy((count: number) => count > 50) }])
  })

  test('times and counts are numbers', async () => {
    const { reader } = await setUp()
    expect(await readValue(reader, '1795163696789::bigint')).toBe(1_795_163_696_789)
    expect(await readValue(reader, 'true')).toBe(true)
  })

  /** The version of a server cannot be set: a database can say another one. @returns its address */
  async function urlOfVersion(expression: string): Promise<string> {
    const { direct, query, name } = await setUp()
    await query(`create schema other; create function other.current_setting(text) returns text language sql
      as $$ select case when $1 = 'server_version_num' then ${expression} else pg_catalog.current_setting($1) end $$`)
    await query(`alter database ${name} set search_path = other, pg_catalog, public`)
    return direct
  }

  test.each([
    ['140012', false],
    ['150000', true],
  ])('a server of the version %s is admitted: %s', async (version, isAdmitted) => {
    const opened = openReadOnly(await urlOfVersion(`'${version}'`)).then(connection => connection.destroy())
    if (isAdmitted) await opened
    else
      await expect(opened).rejects.toThrow(
        /database\.url: this is PostgreSQL 14; the console needs 15 or newer/,
      )
  })

  test('an error that is none of the connection is passed on as it is', async () => {
    const url = await urlOfVersion('(1 / length(left($1, 0)))::text')
    const refusal = await openReadOnly(url).catch((error: unknown) => error)
    expect(refusal).not.toBeInstanceOf(StartError)
    expect(refusal).toMatchObject({ message: 'division by zero' })
  })

  test('a migration whose session ends is tried again by the console; one that fails leaves nothing behind', async () => {
    const { direct: url, query, sessions, close } = await setUp()
    await close()
    const withNext = (statement: string) => ({
      ...MIGRATIONS,
      '9001_made_up': async (database: Connection) => {
        await sql`create table made_up (id text)`.execute(database)
        await sql.raw(statement).execute(database)
      },
    })
    const ended = openMigrated(url, withNext('select pg_terminate_backend(pg_backend_pid())'))
    await expect(ended).rejects.toBeInstanceOf(DatabaseUnreachable)
    const failed = await openMigrated(url, withNext('select 1 / 0')).catch((error: unknown) => error)
    expect(failed).toMatchObject({
      message: 'The database could not be migrated',
      cause: { message: 'division by zero' },
    })
    await until('no session is left', async () => (await sessions()).length === 0)
    expect(await query(`select to_regclass('made_up') as made_up`)).toEqual([{ made_up: null }])
  })

  test('a console starts while another one migrates, or a pooler has kept the lock for that, if nothing is to be migrated', async () => {
    const { direct, query } = await setUp()
    await query(`select pg_advisory_lock(${LOCK_OF_MIGRATIONS})`)
    await (await openMigrated(direct, MIGRATIONS)).close()
    const waiting = openMigrated(direct, { ...MIGRATIONS, '9001_made_up': async () => {} })
    const isWaiting = `select pid from pg_stat_activity
      where datname = current_database() and wait_event = 'advisory'`
    const [{ pid } = { pid: 0 }] = await until('the other waits', async () => {
      const rows = await query(isWaiting)
      return rows.length === 1 && rows
    })
    await query(`select pg_terminate_backend(${pid})`)
    await expect(waiting).rejects.toBeInstanceOf(DatabaseUnreachable)
  })

  function through(port: number, direct: string): string {
    return Object.assign(new URL(direct), { port: String(port) }).href
  }

  describe('that get no answer', () => {
    /** Timers of the test; sockets go on. */
    function holdTimers() {
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      onTestFinished(() => void vi.useRealTimers())
    }

    async function behindProxy() {
      const direct = await server.migratedDatabase()
      const proxy = await TcpProxy.start(direct)
      onTestFinished(() => proxy.stop())
      const watched = await openWatched(direct, through(proxy.port, direct))
      /** Holds back all answers once a statement with this text was sent. */
      const holdAt = (text: string) =>
        new Promise<void>(resolve => {
          proxy.onPiece = (direction, bytes) => {
            if (direction === 'back' || !bytes.includes(text)) return
            proxy.hold('back')
            proxy.onPiece = () => {}
            resolve()
          }
        })
      return { ...watched, proxy, holdAt }
    }

    async function stateAfter(work: Promise<unknown>, ms: number): Promise<string> {
      let state = 'waits'
      work.then(
        () => {
          state = 'answered'
        },
        (error: unknown) => {
          state = error instanceof DatabaseUnavailable ? error.kind : String(error)
        },
      )
      await vi.advanceTimersByTimeAsync(ms)
      await settled()
      return state
    }

    type Proxied = Awaited<ReturnType<typeof behindProxy>>

    /** Holds back the answers from this text on until the work is given up, after which the connection works again. */
    async function expectGivenUp(
      { proxy, reported, holdAt }: Proxied,
      connection: Connection,
      text: string,
      start: () => Promise<unknown>,
    ): Promise<void> {
      holdTimers()
      const sent = holdAt(text)
      const work = start()
      await sent
      expect(await stateAfter(work, 5_900)).toBe('waits')
      expect(await stateAfter(work, 200)).toBe('timeout')
      expect(reported).toEqual(['timeout'])
      vi.useRealTimers()
      proxy.resume()
      await pidOf(connection)
    }

    test.each(POOLS)('statements of the %s are given up after six seconds', async pool => {
      const proxied = await behindProxy()
      const { [pool]: connection } = proxied
      await pidOf(connection)
      await expectGivenUp(proxied, connection, 'made up', () => readValue(connection, `'made up'`))
    })

    test('sessions are given up that do not become ready within six seconds', async () => {
      const proxied = await behindProxy()
      const { announcing } = proxied
      await expectGivenUp(proxied, announcing, 'set_config', () => pidOf(announcing))
    })

    test('connections are given up after three seconds, and the console may try again', async () => {
      const { url, connected } = await startSilentServer()
      holdTimers()
      const opening = openMigrated(url, MIGRATIONS).catch((error: unknown) => error)
      const [socket] = await connected
      expect(await stateAfter(opening, 2_900)).toBe('waits')
      await vi.advanceTimersByTimeAsync(200)
      socket.destroy()
      const error = await opening
      expect(error).toBeInstanceOf(DatabaseUnreachable)
      expect(String(error)).toMatch(/database\.url: cannot reach PostgreSQL: .*time/)
      expect(String(error)).not.toContain('secret')
    })
  })

  test('a console that loses the way to its server says so, and goes on once there is one', async () => {
    const direct = await server.migratedDatabase()
    const proxy = await TcpProxy.start(direct)
    const { port } = proxy
    const { reader, writer, reported } = await openWatched(direct, through(port, direct))
    await hold(reader, async session => {
      await proxy.stop()
      for (const _ of [1, 2]) await expect(pidOf(session)).rejects.toMatchObject({ kind: 'unreachable' })
      const change = session.transaction().execute(insertChange)
      await expect(change).rejects.toMatchObject({ kind: 'unreachable' })
    })
    await expect(writer.transaction().execute(insertChange)).rejects.toMatchObject({ kind: 'unreachable' })
    expect(new Set(reported)).toEqual(new Set(['unreachable']))
    const again = await TcpProxy.start(direct, port)
    onTestFinished(() => again.stop())
    await writer.transaction().execute(insertChange)
    expect(await countChanges(reader)).toBe(1)
  })

  test('a server that cannot be reached, or refuses the user, is no mistake of the schema', async () => {
    const url = new URL(await server.migratedDatabase())
    const refused = await openReadOnly(Object.assign(new URL(url), { password: 'wrong' }).href).catch(
      (error: unknown) => error,
    )
    expect(refused).toBeInstanceOf(StartError)
    expect(String(refused)).toMatch(/authentication failed.*\. Correct the user or the password$/)
    const missing = openReadOnly(Object.assign(new URL(url), { pathname: '/nowhere' }).href)
    await expect(missing).rejects.toThrow(/"nowhere" does not exist\. Create the database/)
  })
})
