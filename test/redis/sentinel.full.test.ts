import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest'
import { decodeRecord, recordKeyName } from '../../src/domain/wire.ts'
import { STARVED_MS } from '../support/confirmed-by-all.ts'
import { ConsoleDouble } from '../support/console-double.ts'
import { freePort } from '../support/free-port.ts'
import { History } from '../support/history.ts'
import { digestNo, RECORD_KEY, recordOf } from '../support/key-records.ts'
import type { ConfigChanges } from '../support/key-store-config.ts'
import { measured } from '../support/measured-again.ts'
import { Fleet, Replica } from '../support/redis-fleet.ts'
import { SentinelGroup } from '../support/redis-sentinel.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { GATEWAY_USER } from '../support/redis-users.ts'
import { ScriptedRedis } from '../support/scripted-redis.ts'
import { until } from '../support/until.ts'

/** The bound while the key service responds, for every failure of Redis. */
const BOUND_MS = 2_000
/** From the promotion of another primary until each gateway is connected to it. */
const RECOVERY_BOUND_MS = 5_000
const KEYS = 60

let group: SentinelGroup
const printed = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'error'), vi.spyOn(process, 'emitWarning')]

beforeAll(async () => {
  group = await SentinelGroup.start()
})
afterAll(() => group.stop())
beforeEach(async () => {
  await group.whole()
  await (await group.primary()).admin.flushall()
})
afterEach(() => {
  for (const spy of printed) expect(spy).not.toHaveBeenCalled()
})

/** A separate gateway, with a console and a key service that the test controls. */
async function startReplica(changes: ConfigChanges = {}): Promise<Replica> {
  const replica = new Replica({ place: group.place, ...GATEWAY_USER, ...changes })
  onTestFinished(() => replica.running.stop())
  await until('the gateway is connected', () => replica.isConnected)
  await until('it reads', () => replica.running.health().redis === 'ok')
  return replica
}

async function reconnectsOf(fleet: Fleet): Promise<number> {
  const counts = await Promise.all(fleet.replicas.map(replica => replica.reconnects()))
  return Math.max(...counts)
}

interface Failover {
  readonly recoveredMs: readonly number[]
  readonly promotedAfterMs: number
  readonly history: History
  readonly revokedAtMs: ReadonlyMap<string, number>
  /** Revocations that were not announced. */
  readonly untold: readonly string[]
  readonly reconnects: number
}

/** Revokes keys before, during and after the failure of a primary, while each gateway looks them up all the time. */
async function revokeThroughFailover(strike: (primary: RedisServer) => unknown): Promise<Failover> {
  const fleet = await Fleet.start(group)
  const keys = await Promise.all(Array.from({ length: KEYS }, () => fleet.issue()))
  for (const { digest } of keys) await fleet.untilVerdict(digest, 'good')
  await group.replicated()
  const primary = await group.primary()
  const history = new History(
    fleet.replicas,
    keys.map(({ digest }) => digest),
  )

  const struckAtMs = performance.now()
  await strike(primary)
  const reconnectedAfterMs = fleet.replicas.map(async replica => {
    await until('it is noticed', () => !replica.isConnected)
    await until('the gateway is connected again', () => replica.isConnected, 60_000)
    return performance.now() - struckAtMs
  })
  const promotedAfterMs = group.failedOver(primary).then(() => performance.now() - struckAtMs)
  const revokedAtMs = new Map<string, number>()
  const untold: string[] = []
  // From before the failure is noticed until after the recovery.
  for (const { id, digest } of keys.slice(0, KEYS - 10)) {
    const { announced, atMs } = await fleet.revoke(id)
    revokedAtMs.set(digest, atMs)
    if (!announced) untold.push(digest)
    if (revokedAtMs.size === 30) await Promise.all(reconnectedAfterMs)
  }
  const recoveredMs = await Promise.all(reconnectedAfterMs)
  await fleet.untilConnected()
  for (const { id, digest } of keys.slice(KEYS - 10)) {
    const { announced, atMs } = await fleet.revoke(id)
    expect(announced).toBe(true)
    revokedAtMs.set(digest, atMs)
  }
  for (const { digest } of keys) await fleet.untilVerdict(digest, 'revoked', BOUND_MS)
  await history.end()
  return {
    recoveredMs,
    promotedAfterMs: await promotedAfterMs,
    history,
    revokedAtMs,
    untold,
    reconnects: await reconnectsOf(fleet),
  }
}

/** The time for agreement belongs to the Sentinels; the rest is Postern's. */
const recoveryMsOf = ({ recoveredMs, promotedAfterMs }: Failover) =>
  Math.max(...recoveredMs) - promotedAfterMs

/** A lookup ends as unknown if the gateway reconnects three times meanwhile; a busy machine may cause one. */
const hasFewUnknown = ({ history }: Failover) => history.count('unknown') < history.answers.length / 100

/** By how much a failover was slower than it may be. */
function missedByMs(failover: Failover): number {
  const { history, revokedAtMs } = failover
  return Math.max(
    history.worstLagMs(revokedAtMs) - BOUND_MS,
    recoveryMsOf(failover) - RECOVERY_BOUND_MS,
    hasFewUnknown(failover) ? 0 : STARVED_MS,
  )
}

describe.each([
  ['dies', (primary: RedisServer) => primary.kill()],
  ['freezes', (primary: RedisServer) => primary.freeze()],
] as const)('while a primary %s and another takes its place', (what, strike) => {
  test('no revoked key is accepted beyond the bound, lookups keep working, and everything recovers by itself', {
    timeout: 400_000,
  }, async () => {
    const failover = await measured({
      what: `Sentinel, the primary ${what}`,
      pids: () => [process.pid, ...[...group.servers, ...group.sentinels].map(({ pid }) => pid)],
      measure: async () => {
        await group.whole()
        return revokeThroughFailover(strike)
      },
      missedByMs,
    })
    const { history, revokedAtMs, untold, recoveredMs, promotedAfterMs } = failover
    const wrong = history.acceptedAfter(BOUND_MS, revokedAtMs)
    process.stdout.write(
      `Sentinel, the primary ${what}: another one after ${Math.round(promotedAfterMs)} ms, ` +
        `connected again after ${recoveredMs.map(Math.round).join(', ')} ms; ` +
        `${history.answers.length} answers, ${wrong.length} wrong, ${history.count('unknown')} without an answer; ` +
        `longest time that a revoked key was accepted ${Math.round(history.worstLagMs(revokedAtMs))} ms\n`,
    )
    expect(untold.length).toBeGreaterThan(0)
    expect(recoveryMsOf(failover)).toBeLessThan(RECOVERY_BOUND_MS)
    expect(wrong).toEqual([])
    expect(hasFewUnknown(failover)).toBe(true)
    expect(history.count('absent')).toBe(0)
    // After a while there is at most one attempt a second.
    expect(failover.reconnects).toBeLessThan(100)
  })
})

describe('a primary that was replaced while frozen, and resumes', () => {
  test('still has the key as active, and no gateway trusts it', async () => {
    const digest = digestNo(1)
    const revoked = recordOf({ version: 2, revokedAtMs: Date.parse('2026-11-20T00:00:00Z') })
    const old = await group.primary()
    const oldConsole = new ConsoleDouble(old)
    await oldConsole.write(digest, recordOf())
    await group.replicated()
    oldConsole.startHeartbeats()
    // There is only Redis, and memory is off: every lookup reads Redis.
    const replica = await startReplica({ staleSeconds: 0, ttlSeconds: 0 })
    expect(await replica.verdict(digest)).toBe('good')

    old.freeze()
    oldConsole.stopHeartbeats()
    await until('the gateway is disconnected', () => !replica.isConnected)
    await group.failedOver(old)
    const next = await group.primary()
    const nextConsole = new ConsoleDouble(next)
    // Revoked while the gateway is disconnected: it never receives the message.
    await nextConsole.write(digest, revoked)
    nextConsole.startHeartbeats()
    old.thaw()
    await until('the gateway is connected again', () => replica.isConnected)
    const verdicts = new Set<string>()
    await until('Redis replies', async () => verdicts.add(await replica.verdict(digest)).has('revoked'))

    const held = decodeRecord((await old.admin.get(recordKeyName(digest))) ?? '', digest, [RECORD_KEY])
    expect(held).toMatchObject({ ok: true, grant: { version: 1, revokedAtMs: null } })
    expect((await old.admin.role())[0]).toBe('master')
    for (let time = 0; time < 100; time++) verdicts.add(await replica.verdict(digest))
    nextConsole.stopHeartbeats()
    // "unknown" is 503, while it is connected to the old primary.
    expect([...verdicts].filter(verdict => verdict !== 'unknown')).toEqual(['revoked'])
    expect(await replica.answersOf('redis')).toBeGreaterThan(100)
  })
})

describe('a revocation that a primary had no time to copy before it died', () => {
  async function loseRevocation() {
    const fleet = await Fleet.start(group, { gatewaySettings: { ttlSeconds: 0 } })
    const { id, digest } = await fleet.issue()
    await fleet.untilVerdict(digest, 'good')
    await group.replicated()
    const [primary, replica] = [await group.primary(), await group.replica()]
    replica.freeze()
    await primary.admin.call('CLIENT', 'KILL', 'TYPE', 'replica')
    expect(await fleet.revoke(id)).toMatchObject({ announced: true })
    // Sent while it is frozen, so processed before it is primary and the console repeats its changes.
    const held = replica.admin.get(recordKeyName(digest))
    await primary.kill()
    replica.thaw()
    expect(decodeRecord((await held) ?? '', digest, [RECORD_KEY])).toMatchObject({
      ok: true,
      grant: { version: 1, revokedAtMs: null },
    })
    await group.failedOver(primary)
    await fleet.untilConnected()
    return { fleet, digest }
  }

  test('is remembered by every gateway that received it, and the old record is replaced', async () => {
    const { fleet, digest } = await loseRevocation()
    const verdicts = new Set<string>()
    const next = await group.primary()
    await until('the record is the new one', async () => {
      for (const replica of fleet.replicas) verdicts.add(await replica.verdict(digest))
      const held = decodeRecord((await next.admin.get(recordKeyName(digest))) ?? '', digest, [RECORD_KEY])
      return held.ok && held.grant.version === 2
    })
    expect(verdicts).toContain('revoked')
    expect(verdicts).not.toContain('good')
  })

  // The console writes recent changes again before it sends heartbeats on a new connection.
  test('is rejected by a gateway that was started since, too', async () => {
    const lost = await loseRevocation()
    const fresh = await startReplica()
    expect(await fresh.verdict(lost.digest)).toBe('revoked')
  })
})

test('a primary without its replica accepts no change, if set up as docs/redis.md says', async () => {
  const [primary, replica] = [await group.primary(), await group.replica()]
  const fleet = await Fleet.start(group)
  await primary.admin.config('SET', 'min-replicas-max-lag', '1')
  await primary.admin.config('SET', 'min-replicas-to-write', '1')
  onTestFinished(async () => void (await primary.admin.config('SET', 'min-replicas-to-write', '0')))
  const { id, digest } = await fleet.issue()
  await fleet.untilVerdict(digest, 'good')
  replica.freeze()
  await until('a change is not announced', async () => {
    const probe = await fleet.issue()
    return !(await fleet.revoke(probe.id)).announced
  })
  expect(await fleet.revoke(id)).toMatchObject({ announced: false })
  await fleet.untilVerdict(digest, 'revoked', BOUND_MS)
  replica.thaw()
  await until('it is announced', async () => (await fleet.revoke(id)).announced)
  await fleet.untilConnected()
})

describe('the Sentinels', () => {
  test('are followed by majority: a partitioned one may name an old primary', async () => {
    const { username, password, ...sentinel } = group.place.sentinel
    const liar = await ScriptedRedis.start(command => (command[0] === 'SENTINEL' ? ['127.0.0.1', '1'] : 'OK'))
    onTestFinished(() => liar.stop())
    const [first = '', second = ''] = sentinel.urls
    const place = { ...group.place, sentinel: { ...sentinel, urls: [liar.address, first, second] } }
    const heartbeats = new ConsoleDouble(await group.primary())
    heartbeats.startHeartbeats()
    onTestFinished(() => heartbeats.stopHeartbeats())
    const replica = await startReplica({ place })
    expect(await replica.reconnects()).toBe(0)
    expect(liar.commands).toContainEqual(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', sentinel.name])
  })

  test('may be down except for one', async () => {
    const [dead, frozen, alive] = group.sentinels
    const gone = await freePort()
    const urls = [`127.0.0.1:${gone}`, `127.0.0.1:${frozen?.port}`, `127.0.0.1:${alive?.port}`]
    expect(dead).toBeDefined()
    const heartbeats = new ConsoleDouble(await group.primary())
    heartbeats.startHeartbeats()
    onTestFinished(() => heartbeats.stopHeartbeats())
    frozen?.freeze()
    onTestFinished(() => frozen?.thaw())
    await startReplica({ place: { ...group.place, sentinel: { ...group.place.sentinel, urls } } })
  })

  test('must answer by majority for the console to announce: a primary that it cannot confirm may have been replaced', async () => {
    const fleet = await Fleet.start(group)
    const { id, digest } = await fleet.issue()
    await fleet.untilVerdict(digest, 'good')
    const silent = group.sentinels.slice(1)
    for (const sentinel of silent) sentinel.freeze()
    onTestFinished(() => {
      for (const sentinel of silent) sentinel.thaw()
    })
    await until('the gateways are disconnected', () =>
      fleet.replicas.every(({ isConnected }) => !isConnected),
    )
    expect(await fleet.revoke(id)).toMatchObject({ announced: false })
    await fleet.untilVerdict(digest, 'revoked', BOUND_MS)
    for (const sentinel of silent) sentinel.thaw()
    await fleet.untilConnected()
    await until('the change is announced', async () => (await fleet.revoke(id)).announced)
  })

  test.each([
    [
      'know no primary of the name',
      { name: 'another' },
      /no Sentinel names the primary.*watches no primary/i,
    ],
    ['reject the password', { password: 'a-wrong-password' }, /WRONGPASS/],
  ])(
    'that %s are asked for ever, a line in the log says why, and none says a password',
    async (_, change, reason) => {
      const sentinel = { ...group.place.sentinel, ...change }
      const replica = new Replica({ place: { ...group.place, sentinel }, ...GATEWAY_USER })
      onTestFinished(() => replica.running.stop())
      await until('several attempts were made', async () => (await replica.reconnects()) >= 6)
      expect(replica.log.text).toMatch(reason)
      expect(replica.log.text).not.toContain('a-wrong-password')
      expect(replica.log.count('redis subscriber failing')).toBe(1)
      expect(await replica.verdict(digestNo(1))).toBe('unknown')
    },
  )
})
