import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openReadOnly } from '../../src/console/platform/open-database.ts'
import { SettingError } from '../../src/domain/errors.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { type RunningConsole, SIGNING_SECRET, startConsole } from '../support/console.ts'
import { openDatabase } from '../support/open-database.ts'
import { PgBouncer } from '../support/pgbouncer.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { runs } from '../support/runs.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, PGBOUNCER, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { describeChangesTogether } from './changes-together.contract.ts'
import { describeRevokeAll } from './revoke-all.contract.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
/** With the sessions of a console, nearly as many as the pooler has servers for one database. */
const CLIENTS = 8

describe.skipIf(!has(POSTGRES) || !has(PGBOUNCER))('behind PgBouncer with its default settings', () => {
  let server: PostgresServer
  let statements: PgBouncer
  beforeAll(async () => {
    // The pooler keeps its connections to the databases of earlier tests.
    server = await PostgresServer.temporary({ max_connections: '800' })
    statements = await PgBouncer.start(server.urlOf('postgres'), 'statement')
  })
  afterAll(async () => {
    await statements.stop()
    await server.stop()
  })

  const clientOf = async (url: string) => {
    const client = new pg.Client({ connectionString: url })
    client.on('error', () => {})
    await client.connect()
    onTestFinished(() => client.end())
    return client
  }
  const issue = async ({ send }: RunningConsole) => {
    const { status, body } = await send('POST', KEYS, { name: 'a', scopes: ['files:read'] })
    expect(status).toBe(201)
    return body
  }
  const revoke = ({ send }: RunningConsole, id: string) => send('POST', `/admin/v1/keys/${id}/revoke`)

  // A session of a client in session mode is one of the server, as without a pooler.
  describe.each(runs(['transaction'] as const, ['session', 'transaction'] as const))('in %s mode', mode => {
    let pooler: PgBouncer
    beforeAll(async () => {
      pooler = await PgBouncer.start(server.urlOf('postgres'), mode)
    })
    afterAll(() => pooler.stop())
    const setUp = async () => {
      const direct = await server.migratedDatabase()
      const url = pooler.urlOf(direct)
      return { direct, url, running: await startConsole({ databaseUrl: url }) }
    }

    test('a console starts, and issues, finds, rotates and revokes keys', async () => {
      const { running } = await setUp()
      const { key, secret } = await issue(running)
      const found = await running.send('GET', `/internal/v1/keys/${digestKey(secret)}`)
      expect(found.status).toBe(200)
      expect((await running.send('POST', `/admin/v1/keys/${key.id}/rotate`)).status).toBe(201)
      const revoked = await Promise.all(
        Array.from({ length: CLIENTS }, async () => revoke(running, (await issue(running)).key.id)),
      )
      expect(revoked.map(({ status }) => status)).toEqual(revoked.map(() => 200))
      await until('it is ready', async () => (await running.health()).database === 'ok')
    })

    test('the time limits of the console hold, and no other client gets them', async () => {
      const { direct, url, running } = await setUp()
      const { key } = await issue(running)
      const holder = await clientOf(direct)
      await holder.query('begin; select * from keys for update')
      const { status, body } = await revoke(running, key.id)
      expect([status, body.code]).toEqual([503, 'database_unavailable'])
      const { rows: waiting } = await holder.query(
        `select query from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      expect(waiting).toEqual([])
      await holder.query('rollback')
      expect((await revoke(running, key.id)).status).toBe(200)
      await Promise.all(Array.from({ length: CLIENTS }, () => issue(running)))
      const others = await Promise.all(Array.from({ length: CLIENTS }, () => clientOf(url)))
      const limits = await Promise.all(
        others.map(async other => {
          const { rows } = await other.query(
            `select pg_sleep(0.05), current_setting('statement_timeout') as limited, current_setting('jit') as jit,
              current_setting('default_transaction_read_only') as read_only`,
          )
          return [rows[0].limited, rows[0].jit, rows[0].read_only]
        }),
      )
      expect(limits).toEqual(limits.map(() => ['0', 'on', 'off']))
    })

    test('what only reads cannot write', async () => {
      const { url } = await setUp()
      const connection = await openReadOnly(url)
      onTestFinished(() => connection.destroy())
      const writes = [
        () => sql`delete from outbox`.execute(connection),
        () => connection.transaction().execute(tx => sql`delete from outbox`.execute(tx)),
      ]
      for (const write of writes) await expect(write()).rejects.toThrow(/read-only transaction/)
    })

    test('a backup is made and the audit log verified; a copy, which must see consoles, is refused', async () => {
      const { direct, url, running } = await setUp()
      await issue(running)
      const env = {
        POSTERN_DATABASE_URL: url,
        POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
      }
      const out = () => join(temporaryDirectory(), `${randomBytes(4).toString('hex')}.db`)
      expect(await runPosternHere(['database', 'backup', out()], env)).toMatchObject({ code: 0 })
      expect(await runPosternHere(['audit', 'verify'], env)).toMatchObject({ code: 0 })
      const copies = [
        ['database', 'copy', url, out(), '--without-redis'],
        ['database', 'copy', `sqlite:${await emptyCopy(out())}`, url, '--without-redis'],
      ]
      for (const copy of copies) {
        const { code, stderr } = await runPosternHere(copy)
        expect({ code, stderr }).toEqual({ code: 65, stderr: expect.stringMatching(/a pooler is between/) })
      }
      const beside = await runPosternHere(['database', 'copy', direct, out(), '--without-redis'])
      expect(beside.stderr).toMatch(/A console uses this PostgreSQL database/)
    })

    async function emptyCopy(file: string): Promise<string> {
      await (await openDatabase(`sqlite:${file}`)).close()
      return file
    }

    test('when the sessions that the pooler keeps accept no writes any more, others are used', async () => {
      const { direct, running } = await setUp()
      const keys = await Promise.all(Array.from({ length: CLIENTS }, () => issue(running)))
      const admin = await clientOf(direct)
      const set = async (value: string) => {
        await admin.query(`alter system set default_transaction_read_only = ${value}`)
        await admin.query('select pg_reload_conf()')
        await until('it is so', async () => {
          const { rows } = await admin.query('show default_transaction_read_only')
          return rows[0].default_transaction_read_only === value
        })
      }
      // Of new sessions only.
      await admin.query('alter role current_user set default_transaction_read_only = off')
      onTestFinished(async () => {
        await set('off')
        await admin.query('alter role current_user reset default_transaction_read_only')
      })
      await set('on')
      const [first] = keys
      await until('a change is made', async () => (await revoke(running, first?.key.id ?? '')).status === 200)
      for (const { key } of keys) expect((await revoke(running, key.id)).status).toBe(200)
    })

    test('when the servers of the pooler are ended, the next change is made', async () => {
      const { direct, running } = await setUp()
      const { key } = await issue(running)
      const admin = await clientOf(direct)
      await admin.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
      )
      await until('it is revoked', async () => (await revoke(running, key.id)).status === 200)
    })
  })

  describe('in transaction mode', () => {
    let pooler: PgBouncer
    beforeAll(async () => {
      pooler = await PgBouncer.start(server.urlOf('postgres'), 'transaction')
    })
    afterAll(() => pooler.stop())
    const freshUrl = async () => pooler.urlOf(await server.migratedDatabase())
    describeChangesTogether(freshUrl)
    describeRevokeAll('PostgreSQL behind PgBouncer', freshUrl)
  })

  test.each([
    [
      'in statement mode',
      () => statements.urlOf(server.urlOf('postgres')),
      /pool_mode to transaction or session/,
    ],
    ['of a database that is missing', () => statements.urlOf(server.urlOf('nowhere')), /Create the database/],
    [
      'with the wrong password',
      () => withPassword(statements.urlOf(server.urlOf('postgres')), 'wrong'),
      /Correct the user or the password/,
    ],
    [
      'with a startup parameter',
      () => `${statements.urlOf(server.urlOf('postgres'))}?options=-c%20jit%3Doff`,
      /ALTER ROLE/,
    ],
  ])('a pooler %s ends the start, and the message says what to do', async (_, url, advice) => {
    const refusal = await openDatabase(url()).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(SettingError)
    expect(String(refusal)).toMatch(advice)
    expect(String(refusal)).not.toMatch(/wrong\b.*@/)
  })

  function withPassword(url: string, password: string): string {
    return Object.assign(new URL(url), { password }).href
  }
})
