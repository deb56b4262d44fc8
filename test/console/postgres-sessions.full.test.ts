import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { Work } from '../../src/console/platform/database/database.ts'
import { DatabaseUnavailable } from '../../src/console/platform/database/database-unavailable.ts'
import { createConcurrentWriter } from '../../src/console/platform/database/postgres/database.ts'
import { openDatabase } from '../support/open-database.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { settled } from '../support/until.ts'
import {
  countChanges,
  hold,
  insertChange,
  openWatched,
  POOLS,
  pidOf,
  readValue,
} from '../support/watched-sessions.ts'

describe.skipIf(!has(POSTGRES))('sessions of a console on PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  const setUp = async () => openWatched(await server.migratedDatabase())

  test.each(['select', '\n    SELECT', '/* may time out */ select', '/* may time out */\n select'])(
    'a read whose session has ended is answered on another one: %j',
    async begin => {
      const { reader, reported, end } = await setUp()
      await hold(reader, async (session, first) => {
        let last = first
        for (const _ of ['once', 'and again']) {
          await end(last)
          const { rows } = await sql<{ pid: number }>`${sql.raw(begin)} pg_backend_pid() as pid`.execute(
            session,
          )
          expect(rows).toEqual([{ pid: expect.any(Number) }])
          expect(rows).not.toEqual([{ pid: last }])
          last = rows[0]?.pid ?? 0
          expect(await pidOf(session)).toBe(last)
        }
      })
      expect(reported).toEqual(['unreachable', 'unreachable'])
    },
  )

  test('a session that ends while nothing is asked on it ends no console', async () => {
    const uncaught: unknown[] = []
    const note = (error: unknown) => void uncaught.push(error)
    process.on('uncaughtExceptionMonitor', note)
    onTestFinished(() => void process.off('uncaughtExceptionMonitor', note))
    const { reader, writer, announcing, end } = await setUp()
    await end((await pidOf(announcing)) ?? 0)
    await hold(reader, async (_session, pid) => end(pid))
    const change = writer.transaction().execute(async tx => {
      await insertChange(tx)
      await end((await pidOf(tx)) ?? 0)
      await settled()
    })
    await expect(change).rejects.toMatchObject({ kind: 'unreachable' })
    for (const connection of [announcing, reader, writer]) expect(await pidOf(connection)).toBeGreaterThan(0)
    expect(uncaught).toEqual([])
  })

  test('a session is used again after its release, and after a statement that was a mistake', async () => {
    for (const pool of POOLS) {
      const { [pool]: connection, reported } = await setUp()
      const first = await pidOf(connection)
      await expect(readValue(connection, '1 / 0')).rejects.toThrow('division by zero')
      await hold(connection, async session => {
        await expect(readValue(session, '1 / 0')).rejects.toThrow('division by zero')
        expect(await readValue(session, "'begin'")).toBe('begin')
        expect(await readValue(session, 'now() = statement_timestamp()')).toBe(true)
      })
      expect([await pidOf(connection), reported]).toEqual([first, []])
    }
  })

  test.each(['delete from outbox', 'insert into outbox select * from outbox'])(
    'what writes is not sent again when its session has ended: %s',
    async statement => {
      const { writer, reported, end } = await setUp()
      const lost = { kind: 'unreachable', isOutcomeUnknown: false }
      await hold(writer, async (session, first) => {
        await end(first)
        for (const _ of [1, 2]) await expect(sql.raw(statement).execute(session)).rejects.toMatchObject(lost)
        await expect(sql.raw(statement).execute(session)).rejects.toBeInstanceOf(DatabaseUnavailable)
      })
      expect(reported).toEqual(['unreachable'])
      await insertChange(writer)
    },
  )

  test('a transaction begins on another session if its own has ended', async () => {
    const { writer, reported, end } = await setUp()
    await hold(writer, async (session, first) => {
      await end(first)
      const [second, inside] = await session.transaction().execute(async tx => {
        await insertChange(tx)
        return [await pidOf(tx), (await tx.selectFrom('outbox').selectAll().execute()).length]
      })
      expect(second).not.toBe(first)
      expect([inside, await pidOf(session), reported]).toEqual([1, second, ['unreachable']])
    })
  })

  test('within a transaction nothing is sent again, and its session is not used after it', async () => {
    const { writer, reported, end } = await setUp()
    let lost = 0
    const change = writer.transaction().execute(async tx => {
      await insertChange(tx)
      lost = (await pidOf(tx)) ?? 0
      await end(lost)
      await readValue(tx, '1')
    })
    await expect(change).rejects.toMatchObject({ kind: 'unreachable' })
    expect(reported).toEqual(['unreachable'])
    expect(await pidOf(writer)).not.toBe(lost)
    expect(await writer.selectFrom('outbox').selectAll().execute()).toEqual([])
  })

  test.each(['commits', 'rolls back'])(
    'after a transaction that %s, a read is answered on another session again',
    async how => {
      const { writer, end } = await setUp()
      await hold(writer, async (session, first) => {
        const work = session.transaction().execute(async tx => {
          await insertChange(tx)
          if (how === 'rolls back') throw new Error('changed its mind')
        })
        await work.catch(() => {})
        await end(first)
        expect(await countChanges(session)).toBe(how === 'commits' ? 1 : 0)
        expect(await pidOf(session)).not.toBe(first)
      })
    },
  )

  test('once a server was lost, no older session is used, in any pool, and each is closed', async () => {
    const { writer, reader, announcing, end, untilGone } = await setUp()
    const older = [await pidOf(writer), await pidOf(announcing)]
    await hold(reader, async (session, first) => {
      await hold(reader, async (_other, second) => {
        older.push(second)
        await end(first)
        await pidOf(session)
      })
    })
    const newer = [await pidOf(writer), await pidOf(announcing)]
    await hold(reader, async (_session, one) =>
      hold(reader, async (_other, two) => void newer.push(one, two)),
    )
    expect(newer.filter(pid => older.includes(pid))).toEqual([])
    for (const pid of older) await untilGone(pid ?? 0)
    expect([await pidOf(writer), await pidOf(announcing)]).toEqual(newer.slice(0, 2))
  })

  test('two sessions that were lost together count as one loss: what was opened after the first stays', async () => {
    const { reader, end } = await setUp()
    let fresh: number | undefined
    await hold(reader, async (session, one) => {
      await hold(reader, async (other, two) => {
        await end(two)
        await end(one)
        await pidOf(other)
        await hold(reader, async (_third, pid) => {
          fresh = pid
        })
        await pidOf(session)
      })
    })
    await hold(reader, async (_session, one) =>
      hold(reader, async (_other, two) =>
        hold(reader, async (_third, three) => expect([one, two, three]).toContain(fresh)),
      ),
    )
  })

  test('a statement that reaches its time limit costs its session, and no other', async () => {
    const { writer, reader, reported, untilGone } = await setUp()
    const before = await pidOf(reader)
    let late = 0
    await hold(writer, async (session, pid) => {
      late = pid
      await sql`set statement_timeout = 30`.execute(session)
      const limit = { kind: 'timeout', sqlState: '57014', isOutcomeUnknown: false }
      await expect(readValue(session, 'pg_sleep(10)')).rejects.toMatchObject(limit)
      await expect(readValue(session, '1')).rejects.toMatchObject(limit)
    })
    await untilGone(late)
    expect([await pidOf(reader), reported]).toEqual([before, ['timeout']])
    await insertChange(writer)
  })

  test('a session that takes no writes is left for reads, and replaced for changes', async () => {
    const { writer, reader, reported, untilGone } = await setUp()
    const setReadOnly = sql`set default_transaction_read_only = on`
    await hold(reader, async session => void (await setReadOnly.execute(session)))
    const [before, refusing] = [await pidOf(reader), await pidOf(writer)]
    expect(await reader.transaction().execute(pidOf)).toBe(before)
    await hold(writer, async session => void (await setReadOnly.execute(session)))
    expect(await pidOf(writer)).toBe(refusing)
    const changed = await writer.transaction().execute(async tx => {
      await insertChange(tx)
      return pidOf(tx)
    })
    expect(changed).not.toBe(refusing)
    await untilGone(refusing ?? 0)
    expect([reported, await pidOf(writer)]).toEqual([['read_only'], changed])
  })

  test('a server that takes no writes refuses changes, and says so; reads go on', async () => {
    const { writer, reader, changes, reported, query, name } = await setUp()
    await query(`alter database ${name} set default_transaction_read_only = on`)
    await query(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()`)
    const refusal = { kind: 'read_only', sqlState: '25006', isOutcomeUnknown: false }
    await expect(changes.run(insertChange)).rejects.toMatchObject(refusal)
    await expect(changes.run(insertChange)).rejects.toThrow('this server or session accepts no writes')
    await expect(insertChange(writer)).rejects.toMatchObject(refusal)
    expect(reported).toContain('read_only')
    expect(await readValue(reader, '1')).toBe(1)
    await query(`alter database ${name} reset default_transaction_read_only`)
    await changes.run(insertChange)
  })

  test('a change whose session ends is made by another transaction, once; one that fails is not repeated', async () => {
    const { writer, announcing, changes, end } = await setUp()
    const ways: readonly ((work: Work<void>) => Promise<void>)[] = [
      changes.run,
      changes.announce,
      changes.announceWithNext,
    ]
    for (const run of ways) {
      let runs = 0
      await run(async tx => {
        await tx.deleteFrom('outbox').execute()
        await insertChange(tx)
        if (++runs === 1) await end((await pidOf(tx)) ?? 0)
        await readValue(tx, '1')
      })
      expect([runs, await countChanges(writer)]).toEqual([2, 1])
      const mistake = run(async tx => {
        runs++
        await readValue(tx, '1 / 0')
      })
      await expect(mistake).rejects.toThrow('division by zero')
      expect(runs).toBe(3)
    }
    const pids = await Promise.all([changes.run(pidOf), changes.announce(pidOf)])
    expect(pids).toEqual([await pidOf(writer), await pidOf(announcing)])
  })

  test('changes wait for each other instead of failing, also under another default of the server', async () => {
    const { direct: url, query, name } = await setUp()
    await query(`alter database ${name} set default_transaction_isolation = serializable`)
    const { close, ...database } = await openDatabase(url)
    onTestFinished(close)
    for (const run of [createConcurrentWriter(database).run, database.changes.announce]) {
      expect(await run(tx => readValue(tx, `current_setting('transaction_isolation')`))).toBe(
        'read committed',
      )
    }
  })

  test.each([
    ['off', 'on'],
    ['local', 'local'],
  ])(
    'a change is on the disk before it is answered, though synchronous_commit of the database is %s: then it is %s',
    async (given, used) => {
      const { direct: url, query, name } = await setUp()
      await query(`alter database ${name} set synchronous_commit = ${given}`)
      const { close, ...database } = await openDatabase(url)
      onTestFinished(close)
      const setting = `current_setting('synchronous_commit')`
      expect(await readValue(database.reader, setting)).toBe(given)
      for (const run of [createConcurrentWriter(database).run, database.changes.announce]) {
        expect(await run(tx => readValue(tx, setting))).toBe(used)
      }
    },
  )
})
