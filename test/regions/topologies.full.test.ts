import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { type RunningConsole, startConsole } from '../support/console.ts'
import { ClusterGroup } from '../support/redis-cluster.ts'
import { Replica } from '../support/redis-fleet.ts'
import { type RedisGroup, refusedBy } from '../support/redis-group.ts'
import { SentinelGroup } from '../support/redis-sentinel.ts'
import { startStandalone } from '../support/redis-standalone.ts'
import { CONSOLE_USER, GATEWAY_USER } from '../support/redis-users.ts'
import { until } from '../support/until.ts'

const RECOVERY_MS = 60_000
const SETTLE_MS = 10_000

let groups: { readonly eu: RedisGroup; readonly us: SentinelGroup; readonly ap: ClusterGroup }

beforeAll(async () => {
  const [eu, us, ap] = await Promise.all([
    startStandalone(),
    SentinelGroup.start(),
    ClusterGroup.start({ replicas: 1 }),
  ])
  groups = { eu, us, ap }
})
afterAll(() => Promise.all(Object.values(groups).map(group => group.stop())))

/** A console with three regions, and a gateway in each, with the rights of docs/redis.md and no other. */
async function startRegions() {
  const timeouts = { commandTimeoutMs: 1_000, connectTimeoutMs: 1_000 }
  const places = Object.entries(groups).map(([name, { place }]) => ({ name, place }))
  const console = await startConsole({
    regions: places.map(({ name, place }) => ({ name, redis: { ...place, ...CONSOLE_USER, ...timeouts } })),
  })
  const keyServiceUrl = await console.internal.listen({ host: '127.0.0.1', port: 0 })
  const replicas = places.map(
    ({ name, place }) => new Replica({ place, region: name, ...GATEWAY_USER, keyServiceUrl }),
  )
  onTestFinished(async () => {
    await Promise.all(replicas.map(({ running }) => running.stop()))
  })
  await untilConnected(console, replicas)
  return { console, replicas }
}

async function untilConnected(console: RunningConsole, replicas: readonly Replica[]) {
  await until(
    'the console announces to all',
    async () => (await console.health()).announcer === 'ready',
    RECOVERY_MS,
  )
  await until(
    'each gateway is connected',
    () => replicas.every(({ isConnected }) => isConnected),
    RECOVERY_MS,
  )
}

async function issue({ send }: RunningConsole) {
  const { body } = await send('POST', '/admin/v1/workspaces/ws_1/keys', {
    name: 'k',
    scopes: ['workspace:read'],
  })
  return { id: body.key.id as string, digest: digestKey(body.secret) }
}

async function revoke({ send }: RunningConsole, id: string) {
  const { body } = await send('POST', `/admin/v1/keys/${id}/revoke`)
  return Object.fromEntries(body.regions.map(({ name, announced }) => [name, announced]))
}

async function untilAll(replicas: readonly Replica[], digest: string, verdict: string) {
  for (const replica of replicas) {
    await until(`the key is ${verdict}`, async () => (await replica.verdict(digest)) === verdict, SETTLE_MS)
  }
}

test('a single Redis, Sentinels and a cluster are regions of one console, and none holds up the others while it fails over', async () => {
  const { console, replicas } = await startRegions()
  const keys = await Promise.all(Array.from({ length: 12 }, () => issue(console)))
  for (const { digest } of keys) await untilAll(replicas, digest, 'good')
  for (const { id, digest } of keys.slice(0, 6)) {
    expect(await revoke(console, id)).toEqual({ eu: true, us: true, ap: true })
    await untilAll(replicas, digest, 'revoked')
  }

  const primary = await groups.us.primary()
  await groups.us.replicated()
  await primary.kill()
  for (const { id, digest } of keys.slice(6, 9)) {
    expect(await revoke(console, id)).toMatchObject({ eu: true, ap: true })
    await untilAll(replicas, digest, 'revoked')
  }
  await groups.us.failedOver(primary)
  await untilConnected(console, replicas)

  const [lost] = keys.slice(9)
  if (lost === undefined) throw new Error('No key is left')
  const node = await groups.ap.holderOf(lost.digest)
  await groups.ap.replicated()
  await node.kill()
  for (const { id, digest } of keys.slice(9)) {
    expect(await revoke(console, id)).toMatchObject({ eu: true, us: true })
    await untilAll(replicas, digest, 'revoked')
  }
  await groups.ap.failedOver(lost.digest, node)
  await untilConnected(console, replicas)
  for (const { digest } of keys) await untilAll(replicas, digest, 'revoked')
  const running = Object.values(groups).flatMap(({ servers }) => servers.filter(({ isRunning }) => isRunning))
  expect(await refusedBy(running)).toEqual([])
})
