import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { PostgresServer, startReplica } from '../support/postgres-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'
import type { IssuedKey } from '../support/world.ts'
import { RegionFleet } from './region-fleet.ts'
import { singleRedis } from './region-redis.ts'

const REVOKED = "select string_agg(id, ' ' order by id) as text from keys where revoked_at_ms is not null"
const IS_PROMOTED = 'select (not pg_is_in_recovery())::text as text'

const idsOf = (keys: readonly IssuedKey[]) =>
  keys
    .map(({ id }) => id)
    .toSorted()
    .join(' ')

async function ask(connectionString: string, statement: string): Promise<string> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    const { rows } = await client.query<{ text: string | null }>(statement)
    return rows[0]?.text ?? ''
  } finally {
    await client.end()
  }
}

/** A primary, and a replica whose connection to it goes through a proxy. */
async function startReplicated() {
  const primary = await PostgresServer.temporary()
  onTestFinished(() => primary.stop())
  const url = await primary.database()
  const replication = await TcpProxy.start(url)
  onTestFinished(() => replication.stop())
  const through = new URL(url)
  through.port = String(replication.port)
  const replica = await startReplica(through.href)
  onTestFinished(() => replica.stop())
  return { primary, url, replication, replicaUrl: replica.urlOf(new URL(url).pathname.slice(1)) }
}

function statusesOf({ regions }: RegionFleet, { secret }: IssuedKey): Promise<number[]> {
  const headers = { authorization: `Bearer ${secret}` }
  const gateways = regions.flatMap(each => each.gateways)
  return Promise.all(
    gateways.map(async ({ urls }) => (await fetch(`${urls.gateway}/api/v1/auth`, { headers })).status),
  )
}

function untilAll(fleet: RegionFleet, key: IssuedKey, status: number): Promise<unknown> {
  return until(`each gateway answers ${status}`, async () =>
    (await statusesOf(fleet, key)).every(each => each === status),
  )
}

describe.skipIf(!has(POSTGRES))('a console whose PostgreSQL is lost', () => {
  test('goes on with a promoted replica, whose lost revocations a restore takes over from Redis', async () => {
    const { primary, url, replication, replicaUrl } = await startReplicated()
    const far = (delayMs: number) => ({ delayMs, redis: singleRedis })
    const regions = { eu: far(5), ap: far(80) }
    const fleet = await RegionFleet.start({ regions, gateways: 1, databaseUrl: url })
    const [good, ...keys] = await fleet.issue(5)
    if (good === undefined) throw new Error('No key was issued')
    for (const key of [good, ...keys]) await untilAll(fleet, key, 200)
    const [replicated, lost] = [keys.slice(0, 2), keys.slice(2)]
    for (const key of replicated) await fleet.revoke(key)
    await until('the replica has them', async () => (await ask(replicaUrl, REVOKED)) === idsOf(replicated))
    replication.hold('back')
    for (const key of lost) await fleet.revoke(key)
    for (const key of keys) await untilAll(fleet, key, 401)

    await primary.kill()
    replication.cut()
    await fleet.stopConsole(0)
    const startMs = performance.now()
    const seconds = () => ((performance.now() - startMs) / 1000).toFixed(1)
    await ask(replicaUrl, 'select pg_promote()::text as text')
    await until('it is promoted', async () => (await ask(replicaUrl, IS_PROMOTED)) === 'true')
    process.stdout.write(`promoted after ${seconds()} s\n`)
    expect(await ask(replicaUrl, REVOKED)).toBe(idsOf(replicated))
    for (const key of keys) expect(await statusesOf(fleet, key)).toEqual([401, 401])

    const settings = { POSTERN_DATABASE_URL: replicaUrl }
    const backup = join(temporaryDirectory(), 'promoted.db')
    await fleet.command(['database', 'backup', backup], settings)
    const restore = ['database', 'restore', backup, '--replace', '--keep-tokens']
    process.stdout.write(await fleet.command(restore, settings))
    expect(await ask(replicaUrl, REVOKED)).toBe(idsOf(keys))
    process.stdout.write(`compared with Redis after ${seconds()} s\n`)
    await fleet.startConsole(0, settings)
    await fleet.untilHealthy()
    process.stdout.write(`console and gateways ready after ${seconds()} s\n`)
    expect(await statusesOf(fleet, good)).toEqual([200, 200])
    for (const key of keys) expect(await statusesOf(fleet, key)).toEqual([401, 401])
    await fleet.revoke(good)
    await untilAll(fleet, good, 401)
  })
})
