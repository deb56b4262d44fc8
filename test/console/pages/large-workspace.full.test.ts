import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { Database } from '../../../src/console/platform/database/database.ts'
import { toKeyRow } from '../../../src/console/platform/database/key-row.ts'
import { untilGood } from '../../support/measured-again.ts'
import { openDatabase } from '../../support/open-database.ts'
import { startSignIn } from '../../support/signed-in.ts'
import { someKey } from '../../support/stored-keys.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'

const KEYS = 100_000
const ROUNDS = 15
const GOAL_MS = 50
const DAY_MS = 86_400_000

/** One workspace: a seventh revoked, some expired, some about to expire. */
async function fill(databaseUrl: string): Promise<void> {
  const database = await openDatabase(databaseUrl)
  const { writer, close } = database
  const nowMs = Date.now()
  const row = {
    ...toKeyRow(someKey(), nowMs),
    id: sql`printf('key_%026d', n)`,
    digest: sql`lower(hex(randomblob(32)))`,
    name: sql`'program ' || n`,
    hint: sql`'wsk_…' || n`,
    created_at_ms: sql`${nowMs - KEYS * 1000} + n * 1000`,
    expires_at_ms: sql`${nowMs} + ((n % 180) - 5) * ${sql.lit(DAY_MS)}`,
    revoked_at_ms: sql`case when n % 7 = 0 then ${nowMs} end`,
  }
  const names = Object.keys(row).map(name => sql.ref(name))
  const values = Object.values(row).map(value => sql`${value}`)
  await sql`with recursive number(n) as (select 1 union all select n + 1 from number where n < ${KEYS})
    insert into keys (${sql.join(names)}) select ${sql.join(values)} from number`.execute(writer)
  await fillUsage(database, nowMs)
  await close()
}

/** 1,000 keys used on two routes in each of 14 days, 2,000 other workspaces, and 200 refusals. */
async function fillUsage({ writer }: Database, nowMs: number): Promise<void> {
  const today = Math.floor(nowMs / DAY_MS)
  const numbers = (first: number, last: number) =>
    sql`with recursive n(i) as (select ${sql.lit(first)} union all select i + 1 from n where i < ${sql.lit(last)})`
  const kinds = sql`(select 'files' as route, 'ok' as code union all select 'workspace', 'ok'
    union all select 'files', 'rate_limited') as kinds`
  await writer.transaction().execute(async tx => {
    await sql`insert into usage_days (workspace_id, key_id, bucket, route, code, count)
      ${numbers(today - 13, today)} select 'ws_1', used.id, i, route, code, 100 from n cross join ${kinds}
      cross join (select id from keys order by id desc limit 1000) as used`.execute(tx)
    await sql`insert into usage_days (workspace_id, key_id, bucket, route, code, count)
      ${numbers(today - 13, today)} select workspace_id, '', i, route, code, 100 from n cross join ${kinds}
      cross join (${numbers(1, 2000)} select 'ws_' || i as workspace_id from n) as workspaces`.execute(tx)
    await sql`insert into refusals (workspace_id, at_ms, id, key_id, route, code, reason, request_id, address)
      ${numbers(1, 200)} select 'ws_1', ${nowMs} - i, 'r' || i, used.id, 'files', 'not_found', 'other_workspace', 'request-' || i, '192.0.2.0/24'
      from n join (select id, row_number() over (order by id desc) as place from keys order by id desc limit 200) as used on place = i`.execute(
      tx,
    )
  })
}

const LIST = '/workspaces/ws_1/keys'
const PATHS = [
  LIST,
  `${LIST}?state=expiring`,
  `${LIST}?state=revoked&sort=name`,
  `${LIST}?sort=-lastUsedAt`,
  `${LIST}?q=program+77`,
  '/workspaces',
  '/workspaces?q=ws',
  '/keys?state=suspended',
  `${LIST}/new`,
  '/workspaces/ws_1/audit',
  '/workspaces/ws_1/revoke-all',
  `${LIST}?state=active&unused=90d&sort=lastUsedAt`,
  '/workspaces/ws_1/usage?range=400d',
  '/workspaces/ws_1/refusals',
  '/workspaces/ws_1/refusals?code=rate_limited',
  '/usage',
]

test(`with ${KEYS} keys in a workspace every page takes under ${GOAL_MS} ms of processor time`, async () => {
  const databaseUrl = `sqlite:${join(temporaryDirectory(), 'keys.db')}`
  await fill(databaseUrl)
  const oidc = { administratorClaim: 'roles', administratorValue: 'postern-admin' }
  const world = await startSignIn({ databaseUrl, signIn: { oidc } })
  const ada = await world.signedIn({
    sub: 'ada',
    name: 'Ada',
    workspaces: ['ws_1'],
    roles: ['postern-admin'],
  })
  const key = (await ada.call('GET', '/workspaces/ws_1/keys?limit=1')).body.keys[0]
  const medianMs = async (path: string) => {
    const times: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      // Processor time: on a machine that others use, the clock would measure them.
      const before = process.cpuUsage()
      const { status } = await ada.browser.visit(path)
      const { user, system } = process.cpuUsage(before)
      times.push((user + system) / 1000)
      expect([path, status]).toEqual([path, 200])
    }
    return times.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? Number.POSITIVE_INFINITY
  }
  let slow = [...PATHS, `${LIST}/${key?.id}`, `${LIST}/${key?.id}?range=400d`]
  const measureSlow = async () => {
    const still: string[] = []
    for (const path of slow) {
      const tookMs = await medianMs(path)
      process.stdout.write(`figure: page ${path}: ${tookMs.toFixed(1)} ms\n`)
      if (tookMs >= GOAL_MS) still.push(path)
    }
    slow = still
    return still
  }
  await untilGood(measureSlow, still => still.length === 0)
  expect(slow).toEqual([])
})
