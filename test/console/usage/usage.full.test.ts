import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { makePartitions, purgeUsage } from '../../../src/console/usage/reports/rows.ts'
import { startConsole } from '../../support/console.ts'
import { openDatabase } from '../../support/open-database.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { has, POSTGRES } from '../../support/tools.ts'
import { describeNearLimits } from './near-limits.contract.ts'
import { describeUsage } from './usage.contract.ts'

/** Of consoles of every version. */
const LOCK_OF_PARTITIONS = '7302118555'

describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  describeUsage('PostgreSQL', () => server.migratedDatabase(), 2)
  describeNearLimits('PostgreSQL', () => server.migratedDatabase(), 2)

  /** The session of an operator. */
  async function connect(databaseUrl: string): Promise<pg.Client> {
    const other = new pg.Client({ connectionString: databaseUrl })
    await other.connect()
    onTestFinished(() => other.end())
    return other
  }

  async function startReporting(databaseUrl: string) {
    const { send } = await startConsole({ databaseUrl })
    const issue = () =>
      send('POST', '/admin/v1/workspaces/ws_1/keys', { name: 'build server', scopes: ['files:read'] })
    const { body } = await issue()
    const minute = Math.floor(Date.now() / 60_000)
    const report = (sequence: number) => {
      const counts = [{ keyId: body.key.id, route: 'files', code: 'ok', minute, count: 3 }]
      return send('POST', '/internal/v1/usage', { gateway: 'g1', sequence, used: {}, counts, refusals: [] })
    }
    expect((await report(1)).status).toBe(200)
    return { send, issue, report }
  }

  test('counts are stored within limits of their own, also where the server has others by default', async () => {
    const databaseUrl = await server.migratedDatabase()
    const other = await connect(databaseUrl)
    await other.query(`create table seen (isolation text, statement_timeout text, lock_timeout text);
      create function note() returns trigger language plpgsql as $$ begin
        insert into seen values (current_setting('transaction_isolation'), current_setting('statement_timeout'),
          current_setting('lock_timeout'));
        return null;
      end $$;
      create trigger note after insert on usage_gateways execute function note();
      alter database ${other.database} set default_transaction_isolation = serializable`)
    await startReporting(databaseUrl)
    const { rows } = await other.query('select * from seen')
    expect(rows).toEqual([{ isolation: 'read committed', statement_timeout: '3s', lock_timeout: '2s' }])
  })

  test('partitions are made and dropped under one lock of all consoles, for which none waits longer than two seconds', async () => {
    const databaseUrl = await server.migratedDatabase()
    const [other, database] = [await connect(databaseUrl), await openDatabase(databaseUrl)]
    onTestFinished(() => database.close())
    await other.query(`create table seen (lock_timeout text, lock bigint);
      create function note() returns event_trigger language plpgsql as $$ begin
        insert into seen select current_setting('lock_timeout'), (classid::bigint << 32) + objid::bigint
          from pg_locks where locktype = 'advisory' and granted and pid = pg_backend_pid();
      end $$;
      create event trigger note on ddl_command_end execute function note()`)
    const nowMs = Date.now()
    const later = nowMs + 30 * 86_400_000
    for (const change of [() => makePartitions(database, nowMs), () => purgeUsage(database, later)]) {
      await change()
      const { rows } = await other.query(
        'with gone as (delete from seen returning *) select distinct * from gone',
      )
      expect(rows).toEqual([{ lock_timeout: '2s', lock: LOCK_OF_PARTITIONS }])
    }
  })

  test('while the tables of counts are locked, keys are issued, and reports are answered 503 until they can be stored', async () => {
    const databaseUrl = await server.migratedDatabase()
    const { send, issue, report } = await startReporting(databaseUrl)
    const other = await connect(databaseUrl)
    await other.query('begin; lock table usage_hours in access exclusive mode')
    const reports = Array.from({ length: 10 }, (_, gateway) => report(2 + gateway))
    const issued = await Promise.all(Array.from({ length: 20 }, issue))
    expect(new Set(issued.map(({ status }) => status))).toEqual(new Set([201]))
    const answers = await Promise.all(reports)
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]))
    await other.query('rollback')
    expect((await report(2)).status).toBe(200)
    // The document of the admin API, with which every answer is compared, has the shape.
    const usage = (await send('GET', '/admin/v1/workspaces/ws_1/usage')).body as unknown as {
      readonly usage: readonly { readonly requests: number }[]
    }
    // In one hour, or the hour turned meanwhile.
    expect(usage.usage.reduce((sum, { requests }) => sum + requests, 0)).toBe(6)
  })
})
