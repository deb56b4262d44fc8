import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { CHANGES_CHANNEL } from '../../src/domain/wire.ts'
import { startConsole } from '../support/console.ts'
import { freePort } from '../support/free-port.ts'
import { readMessage } from '../support/messages.ts'
import { metricValue } from '../support/metric-value.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { RedisServer } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { regionAt } from './region-settings.ts'

/** `BACKLOG=360000` is an hour of 100 changes a second. */
const CHANGES = Number(process.env['BACKLOG'] ?? 10_000)
/** Of the console in this process, however many changes wait: it reads a part of them at a time. */
const MOST_MB = 300
const AT_ONCE = 1_000
const DAY_MS = 86_400_000
const PATIENCE_MS = 60_000 + 2 * CHANGES

const someImports = () =>
  Array.from({ length: AT_ONCE }, () => ({
    digest: digestKey(randomBytes(32).toString('base64url')),
    hint: '…abcd',
    workspaceId: 'ws_1',
    name: 'k',
    scopes: ['workspace:read'],
    expiresAt: new Date(Date.now() + DAY_MS).toISOString(),
  }))

test.skipIf(!has(POSTGRES))(
  `a region that was away gets ${CHANGES} changes in the order of their commits, before a heartbeat`,
  async () => {
    const [eu, us] = [await RedisServer.start(), await RedisServer.start()]
    onTestFinished(() => Promise.all([eu.stop(), us.stop()]).then(() => {}))
    // Where nothing listens: the subscriber below is there before the first change.
    const toUs = await TcpProxy.start(`redis://127.0.0.1:${await freePort()}`)
    onTestFinished(() => toUs.stop())
    const postgres = await PostgresServer.started()
    onTestFinished(() => postgres.stop())
    const { send, health, metrics } = await startConsole({
      databaseUrl: await postgres.database(),
      // What a busy machine answers late would be announced once more.
      regions: [
        regionAt('eu', eu.url, PATIENCE_MS),
        regionAt('us', `redis://127.0.0.1:${toUs.port}`, PATIENCE_MS),
      ],
    })
    const stateIs = (region: string, state: string) =>
      until(`${region} is ${state}`, async () => (await health()).regions?.[region] === state, 30_000)
    const pending = async () => ({
      eu: await metricValue(metrics.regionPending, { region: 'eu' }),
      us: await metricValue(metrics.regionPending, { region: 'us' }),
    })
    await stateIs('eu', 'ready')
    for (let changes = 0; changes < CHANGES; changes += AT_ONCE) {
      const { status } = await send('POST', '/admin/v1/import', { keys: someImports() })
      expect(status).toBe(200)
    }
    await until(
      'all wait for us and none for eu',
      async () => {
        const { eu, us } = await pending()
        return eu === 0 && us === CHANGES
      },
      PATIENCE_MS,
    )
    expect(await metricValue(metrics.regionPendingAge, { region: 'us' })).toBeGreaterThan(0)
    expect(await metricValue(metrics.regionPendingAge, { region: 'eu' })).toBe(0)

    const heldMb = () => process.memoryUsage().rss / 1e6
    const beforeMb = heldMb()
    let mostMb = beforeMb
    const sampling = setInterval(() => {
      mostMb = Math.max(mostMb, heldMb())
    }, 50)
    onTestFinished(() => clearInterval(sampling))
    const times: number[] = []
    const subscriber = us.client()
    subscriber.on('message', (_, text: string) => {
      const message = readMessage(text)
      times.push(message?.kind === 'change' ? message.atMs : Number.POSITIVE_INFINITY)
    })
    await subscriber.subscribe(CHANGES_CHANNEL)
    const startMs = performance.now()
    toUs.leadTo(us.url)
    await until('a heartbeat arrives', () => times.at(-1) === Number.POSITIVE_INFINITY, PATIENCE_MS)
    const tookMs = Math.round(performance.now() - startMs)
    const grownMb = Math.round(mostMb - beforeMb)
    process.stdout.write(`${CHANGES} changes announced in ${tookMs} ms, memory grew by ${grownMb} MB\n`)
    const changes = times.slice(0, times.indexOf(Number.POSITIVE_INFINITY))
    expect(changes).toHaveLength(CHANGES)
    expect(changes).toEqual(changes.toSorted((a, b) => a - b))
    expect(grownMb).toBeLessThan(MOST_MB)
  },
  3 * PATIENCE_MS,
)
