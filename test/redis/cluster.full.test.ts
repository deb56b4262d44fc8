import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { recordKeyName } from '../../src/domain/wire.ts'
import { History } from '../support/history.ts'
import { ClusterGroup } from '../support/redis-cluster.ts'
import { Fleet } from '../support/redis-fleet.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'

/** The bound while the key service responds, for every failure of Redis. */
const BOUND_MS = 2_000
const KEYS = 60

const printed = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'error'), vi.spyOn(process, 'emitWarning')]
afterEach(() => {
  for (const spy of printed) expect(spy).not.toHaveBeenCalled()
})

async function issueMany(fleet: Fleet, count = KEYS) {
  const keys = await Promise.all(Array.from({ length: count }, () => fleet.issue()))
  for (const { digest } of keys) await fleet.untilVerdict(digest, 'good')
  return keys
}

function keysOf(history: readonly { digest: string }[]): string[] {
  return history.map(({ digest }) => digest)
}

/** Number of clients of this kind on the server. */
async function clientsOf(server: RedisServer, command: string): Promise<number> {
  const list = String(await server.admin.call('CLIENT', 'LIST'))
  return list.split('\n').filter(line => line.includes(` cmd=${command} `)).length
}

describe.each([
  ['dies', (node: RedisServer) => node.kill()],
  ['freezes', (node: RedisServer) => node.freeze()],
] as const)('while a primary of a cluster %s and its replica takes its place', (what, strike) => {
  let group: ClusterGroup
  beforeAll(async () => {
    group = await ClusterGroup.start({ replicas: 1 })
  })
  afterAll(() => group.stop())

  test('no revoked key is accepted beyond the bound, lookups keep working, and everything recovers by itself', async () => {
    const fleet = await Fleet.start(group)
    const keys = await issueMany(fleet)
    const [{ digest: lost = '' } = {}] = keys
    const node = await group.holderOf(lost)
    await group.replicated()
    const history = new History(fleet.replicas, keysOf(keys))
    const struckAtMs = performance.now()
    await strike(node)
    const revokedAtMs = new Map<string, number>()
    const failedOver = group.failedOver(lost, node)
    for (const { id, digest } of keys.slice(0, KEYS - 10)) {
      revokedAtMs.set(digest, (await fleet.revoke(id)).atMs)
      if (revokedAtMs.size === 25) await failedOver
    }
    await fleet.untilConnected()
    await until('changes of all slots are announced', async () => {
      const revocations = await Promise.all(keys.slice(0, KEYS - 10).map(({ id }) => fleet.revoke(id)))
      return revocations.every(({ announced }) => announced)
    })
    await fleet.untilConnected()
    const recoveredMs = performance.now() - struckAtMs
    for (const { id, digest } of keys.slice(KEYS - 10)) {
      const { announced, atMs } = await fleet.revoke(id)
      expect(announced).toBe(true)
      revokedAtMs.set(digest, atMs)
    }
    for (const { digest } of keys) await fleet.untilVerdict(digest, 'revoked', BOUND_MS)
    await history.end()
    const wrong = history.acceptedAfter(BOUND_MS, revokedAtMs)
    process.stdout.write(
      `Cluster, a primary ${what}: every change announced and received after ${Math.round(recoveredMs)} ms; ` +
        `${history.answers.length} answers, ${wrong.length} wrong, ${history.count('unknown')} without an answer; ` +
        `longest time that a revoked key was accepted ${Math.round(history.worstLagMs(revokedAtMs))} ms\n`,
    )
    expect(wrong).toEqual([])
    // A lookup ends as unknown if the gateway reconnects three times meanwhile; a busy machine may cause one.
    expect(history.count('unknown')).toBeLessThan(history.answers.length / 100)
    expect(history.count('absent')).toBe(0)
    expect(
      await group.servers.find(server => server !== node && server.isRunning)?.admin.call('ACL', 'LOG'),
    ).toEqual([])
  })
})

describe('in a cluster', () => {
  let group: ClusterGroup
  beforeAll(async () => {
    group = await ClusterGroup.start({ replicas: 0 })
  })
  afterAll(() => group.stop())

  test('a moved slot is followed, and no lookup goes to the key service', async () => {
    const fleet = await Fleet.start(group, {
      keyService: false,
      gateways: 1,
      gatewaySettings: { ttlSeconds: 0 },
    })
    const [{ id, digest } = { id: '', digest: '' }] = await issueMany(fleet, 1)
    const from = await group.holderOf(digest)
    const to = group.servers.find(server => server !== from)
    const slot = Number(await from.admin.call('CLUSTER', 'KEYSLOT', recordKeyName(digest)))
    const ids = await Promise.all([from, to].map(server => server?.admin.call('CLUSTER', 'MYID')))
    await to?.admin.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(ids[0]))
    await from.admin.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(ids[1]))
    // During the move -ASK leads to the new node.
    await from.admin.call('MIGRATE', '127.0.0.1', String(to?.port), recordKeyName(digest), 0, 5_000)
    for (const server of [to, from])
      await server?.admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', String(ids[1]))
    const [replica] = fleet.replicas
    expect(await replica?.verdict(digest)).toBe('good')
    expect(await fleet.revoke(id)).toMatchObject({ announced: true })
    await fleet.untilVerdict(digest, 'revoked', 1_000)
  })

  test('a gateway whose subscribed node dies subscribes to another one', async () => {
    const fleet = await Fleet.start(group, { gateways: 1 })
    const [replica] = fleet.replicas
    const node = await until('the only subscriber is found', async () => {
      const counts = await Promise.all(group.servers.map(server => clientsOf(server, 'subscribe')))
      return counts.toSorted().join() === '0,0,1' && group.servers[counts.indexOf(1)]
    })
    await node.kill()
    onTestFinished(async () => {
      await node.revive()
      await group.readmit(node)
    })
    await until('the gateway is disconnected', () => replica?.isConnected === false)
    await until('the gateway is connected again', () => replica?.isConnected)
    expect(await replica?.reconnects()).toBeLessThan(20)
  })

  test('a node that comes back with data of before a revocation gets it again, whichever node publishes', async () => {
    const fleet = await Fleet.start(group, { gateways: 1 })
    const keys = await issueMany(fleet, 30)
    const publishing = await Promise.all(group.servers.map(server => clientsOf(server, 'publish')))
    const node = group.servers.find((_, index) => publishing[index] === 0)
    if (node === undefined) throw new Error('One node publishes for all')
    const holders = await Promise.all(keys.map(({ digest }) => group.holderOf(digest)))
    const own = keys.filter((_, index) => holders[index] === node)
    await node.admin.save()
    for (const { id } of own) expect(await fleet.revoke(id)).toMatchObject({ announced: true })
    await node.kill()
    await node.revive()
    await group.readmit(node)
    const versionsOf = async () => {
      const records = await Promise.all(own.map(({ digest }) => node.admin.get(recordKeyName(digest))))
      return records.map(record => /"version":(\d+)/.exec(record ?? '')?.[1])
    }
    await until('its records are those of now', async () =>
      (await versionsOf()).every(version => version === '2'),
    )
    expect(own.length).toBeGreaterThan(0)
  })

  test('keys of a dead node without a replica are served by the key service, the others by Redis', async () => {
    const fleet = await Fleet.start(group, { gatewaySettings: { ttlSeconds: 0, staleSeconds: 0 } })
    const keys = await issueMany(fleet, 30)
    const node = await group.holderOf(keys[0]?.digest ?? '')
    const holders = await Promise.all(keys.map(({ digest }) => group.holderOf(digest)))
    const lost = keys.filter((_, index) => holders[index] === node)
    const kept = keys.filter((_, index) => holders[index] !== node)
    await node.kill()
    onTestFinished(async () => {
      await node.revive()
      await group.readmit(node)
    })
    await fleet.untilConnected()
    for (let time = 0; time < 20; time++) {
      for (const { digest } of keys) {
        const verdicts = await Promise.all(fleet.replicas.map(replica => replica.verdict(digest)))
        expect(verdicts).toEqual(['good', 'good', 'good'])
      }
    }
    const [replica] = fleet.replicas
    const tierOf = async (digest: string) => {
      const lookup = await replica?.get(digest)
      return lookup?.kind === 'found' ? lookup.tier : lookup?.kind
    }
    await until('the others are read from Redis', async () => {
      const tiers = await Promise.all(kept.map(({ digest }) => tierOf(digest)))
      return tiers.every(tier => tier === 'redis')
    })
    expect(await Promise.all(lost.map(({ digest }) => tierOf(digest)))).toEqual(lost.map(() => 'key_service'))
    expect(lost.length).toBeGreaterThan(0)
  })

  test('Redis is retried until it is up, and the gateway uses the key service until then', async () => {
    const fleet = await Fleet.start(group, { gateways: 1 })
    const [{ digest } = { digest: '' }] = await issueMany(fleet, 1)
    for (const server of group.servers) await server.kill()
    const [replica] = fleet.replicas
    await until('the gateway is disconnected', () => replica?.isConnected === false)
    expect(await replica?.verdict(digest)).toBe('good')
    for (const server of group.servers) await server.revive()
    for (const server of group.servers) await group.readmit(server)
    await fleet.untilConnected()
    await until('it is found again', async () => (await replica?.verdict(digest)) === 'good')
  })
})
