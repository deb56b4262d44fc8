import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { openPostgresForCopy } from '../../src/console/platform/database/postgres/database.ts'
import { comparePostgresSchema } from '../../src/console/platform/database/postgres/schema.ts'
import { openReadOnly } from '../../src/console/platform/open-database.ts'
import { MIGRATIONS } from '../../src/console/schema.ts'
import { StartError } from '../../src/domain/errors.ts'
import { PgBouncer } from '../support/pgbouncer.ts'
import { PostgresServer, startReplica } from '../support/postgres-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { has, PGBOUNCER, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'
import {
  countChanges,
  hold,
  insertChange,
  openWatched,
  pidOf,
  readValue,
} from '../support/watched-sessions.ts'

const READ_ONLY = { kind: 'read_only', sqlState: '25006', isOutcomeUnknown: false }

describe.skipIf(!has(POSTGRES) || !has(PGBOUNCER))('behind a pooler, which leads to another server', () => {
  let primary: PostgresServer
  let replica: PostgresServer
  let address: TcpProxy
  let pooler: PgBouncer
  beforeAll(async () => {
    primary = await PostgresServer.temporary()
    const url = primary.urlOf('postgres')
    replica = await startReplica(url)
    address = await TcpProxy.start(url)
    const through = Object.assign(new URL(url), { port: String(address.port) }).href
    pooler = await PgBouncer.start(through, 'transaction', { server_login_retry: '0.1' })
  })
  afterAll(async () => {
    await pooler?.stop()
    await address?.stop()
    await replica?.stop()
    await primary?.stop()
  })
  beforeEach(() => address.leadTo(primary.urlOf('postgres')))

  async function setUp() {
    const direct = await primary.migratedDatabase()
    const watched = await openWatched(direct, pooler.urlOf(direct))
    const openOnly = async () => {
      const connection = await openReadOnly(pooler.urlOf(direct))
      onTestFinished(() => connection.destroy())
      return connection
    }
    return { ...watched, openOnly }
  }

  test('each statement and each transaction has the settings of its pool, and none is left open', async () => {
    const { writer, reader, announcing, openOnly, query } = await setUp()
    const settings = [
      'statement_timeout',
      'idle_in_transaction_session_timeout',
      'jit',
      'transaction_read_only',
    ]
    const read = settings.map(setting => `current_setting('${setting}')`).join(` || ' ' || `)
    for (const pool of [writer, reader, announcing]) {
      await hold(pool, async session => {
        // The second one after another of the same session.
        for (const _ of [1, 2]) expect(await readValue(session, read)).toBe('5s 6s off off')
      })
      expect(await pool.transaction().execute(tx => readValue(tx, read))).toBe('5s 6s off off')
    }
    const only = await openOnly()
    expect(await readValue(only, read)).toBe('0 0 off on')
    expect(await only.transaction().execute(tx => readValue(tx, read))).toBe('0 0 off on')
    const open = await query(`select pid from pg_stat_activity
      where datname = current_database() and state like 'idle in transaction%'`)
    expect(open).toEqual([])
  })

  test('a change is committed, and one that fails leaves nothing, and its session in use', async () => {
    const { writer, reader, reported } = await setUp()
    await hold(writer, async session => {
      await insertChange(session)
      await expect(insertChange(session)).rejects.toThrow('duplicate key')
      expect(await countChanges(session)).toBe(1)
      const change = session.transaction().execute(async tx => {
        await sql`delete from outbox`.execute(tx)
        await insertChange(tx)
        await insertChange(tx)
      })
      await expect(change).rejects.toThrow('duplicate key')
      const { numDeletedRows } = await session.deleteFrom('outbox').executeTakeFirstOrThrow()
      expect(Number(numDeletedRows)).toBe(1)
    })
    expect([await countChanges(reader), reported]).toEqual([0, []])
  })

  test('a read whose server goes away is answered by another one, also if that was before the end of its transaction', async () => {
    const { reader, reported } = await setUp()
    const first = await pidOf(reader)
    address.onPiece = (direction, bytes) => {
      if (direction === 'back' || !/commit|rollback/.test(bytes.toString('latin1'))) return
      address.onPiece = () => {}
      address.cut()
    }
    expect(await pidOf(reader)).not.toBe(first)
    expect(reported).toEqual(['unreachable'])
  })

  test('what only reads writes nothing; only a comparison of schemas does, which it undoes', async () => {
    const { openOnly } = await setUp()
    const only = await openOnly()
    await expect(insertChange(only)).rejects.toThrow('read-only transaction')
    await expect(only.transaction().execute(insertChange)).rejects.toThrow('read-only transaction')
    expect(await comparePostgresSchema(only, MIGRATIONS)).toEqual([])
    expect(await countChanges(only)).toBe(0)
  })

  test('what must see consoles is refused, and says what to do', async () => {
    const { direct } = await setUp()
    const url = pooler.urlOf(direct)
    const text =
      'TO: a pooler is between here and PostgreSQL, behind which running consoles cannot be seen. Give the address of the server'
    const refused = new StartError(text)
    await expect(openReadOnly(url, { name: 'TO', seesConsoles: true })).rejects.toThrow(refused)
    await expect(openPostgresForCopy(url, MIGRATIONS, 'TO')).rejects.toThrow(refused)
    const seeing = await openReadOnly(direct, { name: 'TO', seesConsoles: true })
    await seeing.destroy()
  })

  test('to one that takes no writes, changes are refused, reads go on', async () => {
    const { writer, reader, reported, query, name } = await setUp()
    await Promise.all([pidOf(writer), pidOf(reader)])
    await query(`alter database ${name} set default_transaction_read_only = on`)
    address.cut()
    await until('a read is answered', () => pidOf(reader).catch(() => null))
    await expect(insertChange(writer)).rejects.toMatchObject(READ_ONLY)
    await expect(writer.transaction().execute(insertChange)).rejects.toMatchObject(READ_ONLY)
    expect(reported).toContain('read_only')
    expect(await countChanges(reader)).toBe(0)
  })

  test('to a standby, which may be behind, nothing is read and nothing is written; an audit goes on', async () => {
    const { writer, reader, reported, openOnly, direct } = await setUp()
    const only = await openOnly()
    await Promise.all([pidOf(writer), pidOf(reader), pidOf(only)])
    await until('the replica has the database', async () => {
      const connection = await openReadOnly(replica.urlOf(new URL(direct).pathname.slice(1))).catch(
        () => null,
      )
      await connection?.destroy()
      return connection !== null
    })
    address.leadTo(replica.urlOf('postgres'))
    address.cut()
    const standby = { ...READ_ONLY, reason: 'this server is a standby, which may be behind its primary' }
    await until('the audit goes on', () => pidOf(only).catch(() => null))
    for (const pool of [writer, reader]) {
      await expect(pidOf(pool)).rejects.toMatchObject(standby)
      await expect(pool.transaction().execute(countChanges)).rejects.toMatchObject(standby)
      await expect(insertChange(pool)).rejects.toMatchObject(standby)
    }
    expect(reported).toContain('read_only')
    expect(await only.transaction().execute(countChanges)).toBe(0)
    address.leadTo(primary.urlOf('postgres'))
    address.cut()
    await until('changes are made again', () =>
      insertChange(writer).then(
        () => true,
        () => false,
      ),
    )
    expect(await countChanges(reader)).toBe(1)
  })

  test('a session that was not admitted is closed', async () => {
    const { direct } = await setUp()
    const url = replica.urlOf(new URL(direct).pathname.slice(1))
    const refusal = await until('the standby is refused', () =>
      openPostgresForCopy(url, MIGRATIONS).then(
        () => null,
        (error: unknown) => (String(error).includes('standby') ? error : null),
      ),
    )
    const text = 'cannot reach PostgreSQL: this server is a standby, which may be behind its primary'
    expect(refusal).toMatchObject({ message: `database.url: ${text}` })
    const through = Object.assign(new URL(direct), { port: String(address.port) }).href
    const { reader } = await openWatched(direct, through)
    await pidOf(reader)
    address.leadTo(replica.urlOf('postgres'))
    address.cut()
    await expect(pidOf(reader)).rejects.toMatchObject(READ_ONLY)
    const only = await openReadOnly(url)
    onTestFinished(() => only.destroy())
    const others = `(select count(*) from pg_stat_activity where datname = current_database()
      and application_name in ('postern-database', 'postern-console'))`
    await until('no session is left', async () => (await readValue(only, others)) === 0)
  })
})
