import { afterAll, expect, test } from 'vitest'
import { countAccepted } from '../support/count-accepted.ts'
import { Parts } from '../support/parts.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { readiness, untilConnected } from '../support/readiness.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'

const KEYS = 10
const WATCHED_MS = 3_000
const BOUND_MS = 2_000
const AFTER_FAILOVER_MS = 8_000

const parts = new Parts()
afterAll(() => parts.stop())

test.skipIf(!has(POSTGRES))(
  'of two consoles that proxies lead to two servers after a failover, one announces, and no gateway trusts the other server',
  async () => {
    const postgres = await parts.own(await PostgresServer.started())
    const [before, after] = [await parts.redis(), await parts.redis()]
    await after.admin.replicaof('127.0.0.1', before.port)
    const upstream = await parts.upstream()
    const stays = await parts.proxy(before.url)
    const follows = await parts.proxy(before.url)
    const through = ({ port }: typeof stays) => ({
      POSTERN_LOG_LEVEL: 'warn',
      POSTERN_REDIS_URL: `redis://127.0.0.1:${port}`,
    })
    const database = { POSTERN_DATABASE_URL: await postgres.database() }
    const former = await parts.console({ ...through(stays), ...database })
    const current = await parts.console({ ...through(follows), ...database })
    const gateway = await parts.gateway({
      ...through(follows),
      POSTERN_KEY_SERVICE_URL: current.urls.internal,
      POSTERN_UPSTREAM_URL: upstream.url,
    })
    await untilConnected(gateway, 20_000)
    const isAnnouncing = async () =>
      (await Promise.all([former, current].map(readiness))).every(({ announcer }) => announcer === 'ready')
    await until('both announce', isAnnouncing)
    const keys = await Promise.all(Array.from({ length: KEYS }, () => parts.issue(former)))
    await until(
      'the replica has them',
      async () => (await after.countRecords()) === (await before.countRecords()),
    )

    await after.admin.replicaof('NO', 'ONE')
    follows.leadTo(after.url)
    follows.cut()
    await new Promise(resolve => setTimeout(resolve, AFTER_FAILOVER_MS))
    await Promise.all(keys.map(({ id }) => parts.change(former, `/keys/${id}/revoke`)))
    const revokedAtMs = performance.now()
    let [asked, accepted] = [0, 0]
    await until('the bound has passed', () => performance.now() - revokedAtMs > BOUND_MS)
    while (performance.now() - revokedAtMs < BOUND_MS + WATCHED_MS) {
      accepted += await countAccepted(gateway, keys)
      asked += keys.length
    }
    process.stdout.write(`${accepted} of ${asked} requests with revoked keys were accepted\n`)
    expect(accepted).toBe(0)
    // The former server ends at last: the console that was led there announces to the new one, and both send heartbeats.
    stays.leadTo(after.url)
    stays.cut()
    await until('both announce', isAnnouncing)
    await untilConnected(gateway, 20_000)
  },
)
