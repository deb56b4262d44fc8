import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startConsole } from '../../support/console.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { has, POSTGRES } from '../../support/tools.ts'
import { describeNearLimits } from './near-limits.contract.ts'
import { describeUsage } from './usage.contract.ts'

describe.skipIf(!has(POSTGRES))('with a real PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())
  describeUsage('PostgreSQL', () => server.migratedDatabase(), 2)
  describeNearLimits('PostgreSQL', () => server.migratedDatabase(), 2)

  test('while the tables of counts are locked, keys are issued, and reports are answered 503 until they can be stored', async () => {
    const databaseUrl = await server.migratedDatabase()
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
    const other = new pg.Client({ connectionString: databaseUrl })
    await other.connect()
    onTestFinished(() => other.end())
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
