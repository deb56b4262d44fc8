import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { REVOCATION_TIMING } from '../../src/domain/revocation-timing.ts'
import { CHANGES_CHANNEL } from '../../src/domain/wire.ts'
import { readMessage } from '../support/messages.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { has, POSTGRES } from '../support/tools.ts'
import type { IssuedKey } from '../support/world.ts'
import { type FarRegion, RegionFleet, type Revocation } from './region-fleet.ts'
import {
  type RegionRedis,
  type SentinelRedis,
  type SingleRedis,
  sentinelRedis,
  singleRedis,
} from './region-redis.ts'
import { type Phase, revokeAndWatch } from './watched-revocations.ts'

const KEYS = 20
const PER_SECOND = 10
/** Of the keys, when something happens to the first console. */
const MIDWAY = 5
const { connectedBoundMs, disconnectedBoundMs } = REVOCATION_TIMING

const connected = ({ delayMs }: FarRegion) => connectedBoundMs + delayMs
const disconnected = ({ delayMs }: FarRegion) => disconnectedBoundMs + 5 * delayMs

/** Messages that gateways receive: of each change how often, and of each console the times of its heartbeats, by its clock. */
async function listen(redis: RedisServer) {
  const changes = new Map<string, number>()
  const heartbeats = new Map<string, number[]>()
  const subscriber = redis.admin.duplicate()
  onTestFinished(() => subscriber.disconnect())
  subscriber.on('message', (_, text: string) => {
    const message = readMessage(text)
    if (message?.kind === 'change') {
      const change = `${message.digest} ${message.version}`
      changes.set(change, (changes.get(change) ?? 0) + 1)
    } else if (message?.kind === 'heartbeat') {
      const times = heartbeats.get(message.sender) ?? []
      heartbeats.set(message.sender, [...times, message.monotonicMs ?? 0])
    }
  })
  await subscriber.subscribe(CHANGES_CHANNEL)
  return { changes, heartbeats }
}

describe.skipIf(!has(POSTGRES))('two consoles on one PostgreSQL', () => {
  let postgres: PostgresServer
  let fleet: RegionFleet<RegionRedis>
  let eu: SingleRedis
  let us: SentinelRedis
  let good: readonly IssuedKey[]
  beforeAll(async () => {
    postgres = await PostgresServer.started()
  })
  afterAll(() => postgres.stop())

  /** Each console revokes half of the keys; what the first cannot answer, the second is asked for. */
  const revokeAtBoth = (midway = async () => {}, atTheEnd = async () => {}) => {
    let asked = 0
    return async (key: IssuedKey): Promise<Revocation> => {
      const askedAtMs = Date.now()
      const turn = asked++ % KEYS
      if (turn === MIDWAY) await midway()
      if (turn === KEYS - 1) await atTheEnd()
      const { committedAtMs } = await fleet.revoke(key, turn % 2).catch(() => fleet.revoke(key, 1))
      return { askedAtMs, committedAtMs }
    }
  }
  const revoke = async (phase: Omit<Phase, 'keys' | 'perSecond'>) =>
    revokeAndWatch(fleet, good, { keys: KEYS, perSecond: PER_SECOND, ...phase })

  test('share the work of two regions, through a failover of Sentinels, and while one of them is suspended or killed', async () => {
    fleet = await RegionFleet.start<RegionRedis>({
      regions: {
        eu: { delayMs: 5, redis: async (relays, delayMs) => (eu = await singleRedis(relays, delayMs)) },
        us: { delayMs: 0, redis: async () => (us = await sentinelRedis()) },
      },
      gateways: 2,
      consoles: 2,
      databaseUrl: await postgres.database(),
    })
    good = await fleet.issue(10)

    const { changes, heartbeats } = await listen(eu.server)
    const revoked = await revoke({ name: 'two consoles', boundMs: connected, revoke: revokeAtBoth() })
    const revocations = [...changes].filter(([change]) => change.endsWith(' 2'))
    expect(revocations).toHaveLength(revoked)
    expect([...heartbeats.keys()]).toHaveLength(2)
    for (const times of heartbeats.values()) expect(times).toEqual(times.toSorted((a, b) => a - b))

    let primary = await us.group.primary()
    await revoke({
      name: 'the primary of us killed, and its replica promoted',
      boundMs: region => (region.name === 'us' ? disconnected(region) : connected(region)),
      revoke: revokeAtBoth(),
      fault: async () => {
        await us.group.whole()
        await us.group.replicated()
        primary = await us.group.primary()
        await primary.kill()
      },
      mend: () => us.group.failedOver(primary),
    })

    const signal = (name: NodeJS.Signals) => async () => void fleet.console(0).process.child.kill(name)
    await revoke({
      name: 'one console suspended in the middle',
      boundMs: disconnected,
      revoke: revokeAtBoth(signal('SIGSTOP'), signal('SIGCONT')),
      mend: signal('SIGCONT'),
    })
    await revoke({
      name: 'one console killed in the middle',
      boundMs: disconnected,
      revoke: revokeAtBoth(() => fleet.stopConsole(0)),
      mend: () => fleet.startConsole(0),
    })
  }, 400_000)
})
