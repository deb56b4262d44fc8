import { afterAll, expect, test } from 'vitest'
import { countAccepted } from '../support/count-accepted.ts'
import { Parts } from '../support/parts.ts'
import { readiness, untilConnected } from '../support/readiness.ts'
import { until } from '../support/until.ts'

const KEYS = 10
const WATCHED_MS = 3_000
const BOUND_MS = 2_000

const parts = new Parts()
afterAll(() => parts.stop())

test('a gateway reads no records of a server that a proxy leads to no more, once its subscription leads to the new one', async () => {
  const [before, after] = [await parts.redis(), await parts.redis()]
  await after.admin.replicaof('127.0.0.1', before.port)
  const upstream = await parts.upstream()
  const [ofConsole, ofGateway] = [await parts.proxy(before.url), await parts.proxy(before.url)]
  const through = ({ port }: typeof ofConsole) => ({
    POSTERN_LOG_LEVEL: 'warn',
    POSTERN_REDIS_URL: `redis://127.0.0.1:${port}`,
  })
  const console = await parts.console(through(ofConsole))
  const gateway = await parts.gateway({
    ...through(ofGateway),
    POSTERN_KEY_SERVICE_URL: console.urls.internal,
    POSTERN_UPSTREAM_URL: upstream.url,
  })
  await untilConnected(gateway, 20_000)
  const keys = await Promise.all(Array.from({ length: KEYS }, () => parts.issue(console)))
  await until(
    'the replica has them',
    async () => (await after.countRecords()) === (await before.countRecords()),
  )

  await after.admin.replicaof('NO', 'ONE')
  for (const proxy of [ofConsole, ofGateway]) proxy.leadTo(after.url)
  ofConsole.cut()
  await until('the console announces there', async () => (await readiness(console))['announcer'] === 'ready')
  const changes = keys.map(({ id }) => parts.change(console, `/keys/${id}/revoke`))
  expect(await Promise.all(changes)).toMatchObject(keys.map(() => ({ announced: true })))
  const revokedAtMs = performance.now()
  let [asked, accepted] = [0, 0]
  await until('the bound has passed', () => performance.now() - revokedAtMs > BOUND_MS)
  // What the key service says meanwhile would be known afterwards.
  await untilConnected(gateway, 20_000)
  const connectedAtMs = performance.now()
  while (performance.now() - connectedAtMs < WATCHED_MS) {
    accepted += await countAccepted(gateway, keys)
    asked += keys.length
  }
  process.stdout.write(`${accepted} of ${asked} requests with revoked keys were accepted\n`)
  expect(await readiness(gateway)).toMatchObject({ changes: 'connected', redis: 'ok' })
  expect(accepted).toBe(0)
})
