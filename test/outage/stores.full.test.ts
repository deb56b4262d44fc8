import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { recordKeyName } from '../../src/domain/wire.ts'
import { STARVED_MS } from '../support/confirmed-by-all.ts'
import { Fleet } from '../support/fleet.ts'
import { measured, slowOf, starvedOfSlow, untilProven } from '../support/measured-again.ts'
import { scrape } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import type { IssuedKey } from '../support/world.ts'
import { ObservedLoad, report, type Seen, wrongOf } from './observed-load.ts'

const REDIS_TIMEOUT_MS = 400
const KEY_SERVICE_TIMEOUT_MS = 700
/** A request that took this long waited for the shortest timeout. */
const SLOW_MS = REDIS_TIMEOUT_MS * 0.9
/** Defaults of `redis.circuit.failures` and `keyService.circuit.failures`. */
const FAILURES = 5
const REPLICAS = 2
const SETTINGS = {
  POSTERN_REDIS_COMMAND_TIMEOUT_MS: String(REDIS_TIMEOUT_MS),
  POSTERN_KEY_SERVICE_TIMEOUT_MS: String(KEY_SERVICE_TIMEOUT_MS),
}
const RECOVERY_MS = 30_000
/** Trusted for up to a second while disconnected, which takes a second to notice; then stale up to the limit. */
const TRUSTED_MS = 2_000

let fleet: Fleet
let warm: IssuedKey[]
beforeAll(async () => {
  fleet = await Fleet.start(REPLICAS, SETTINGS)
  warm = await fleet.issue(20)
})
afterAll(() => fleet.stop())

interface Outage {
  readonly name: string
  /** Keys that no gateway has seen; by default 30 that were issued before the fault. */
  readonly cold?: () => Promise<IssuedKey[]>
  readonly fault: () => unknown
  readonly mend: () => unknown
  /** Expected `/readyz` during the fault. */
  readonly degraded?: Readonly<Record<string, string>>
  readonly pauseMs?: number
}

interface Suffered {
  readonly seen: readonly Seen[]
  /** Once it was repaired. */
  readonly after: readonly Seen[]
  /** How long the machine kept some process from running within a second, at most. */
  readonly starvedMs: number
}

interface Harm {
  /** So many requests at each gateway may be delayed by a timeout. */
  readonly atMost?: number
  /** Requests with these keys may fail. */
  readonly hidden?: () => readonly IssuedKey[]
}

/** Causes a fault, and again if there was more harm than may be, and the machine starved some process for as long as a timeout. */
async function suffer(outage: Outage, harm: Harm = {}): Promise<readonly Seen[]> {
  const { atMost = Number.POSITIVE_INFINITY, hidden = () => [] } = harm
  const groups = (seen: readonly Seen[]) =>
    fleet.replicas.map((_, replica) => seen.filter(each => each.replica === replica))
  const { seen, after } = await untilProven(outage.name, async () => {
    const result = await cause(outage)
    const isHidden = new Set(hidden().map(({ id }) => id))
    const failed = [
      ...failedOf(result.seen).filter(({ key }) => !isHidden.has(key)),
      ...failedOf(result.after),
    ]
    const isUnproven = failed.length > 0 && result.starvedMs >= SLOW_MS
    const starvedMs = isUnproven ? result.starvedMs : starvedOfSlow(groups(result.seen), SLOW_MS, atMost)
    return { result, starvedMs }
  })
  expect(failedOf(after)).toEqual([])
  for (const own of groups(seen)) expect(slowOf(own, SLOW_MS).length).toBeLessThanOrEqual(atMost)
  return seen
}

/** Causes a fault under load, repairs it, and prints what it cost. */
async function cause(outage: Outage): Promise<Suffered> {
  const { name, fault, mend, pauseMs = 15 } = outage
  await fleet.untilHealthy()
  const before = outage.cold === undefined ? await fleet.issue(30) : []
  const load = new ObservedLoad(fleet)
  try {
    expect(wrongOf(await load.askAll(warm))).toEqual([])
    const begun = await load.storeRequests()
    await fault()
    const cold = (await outage.cold?.()) ?? before
    const seen = await load.run(warm, cold, pauseMs)
    if (outage.degraded !== undefined) {
      for (const { urls } of fleet.replicas) await untilDegraded(urls.ops, outage.degraded)
    }
    const stores = await load.storeRequests()
    await mend()
    const mendedMs = performance.now()
    await fleet.untilHealthy()
    // An open circuit rejects lookups without a request until its next probe succeeds. Some keys are in Redis by then.
    await until(
      'each gateway looks up every key again',
      async () => (await load.askAll(cold)).every(({ answer }) => answer === '200'),
      RECOVERY_MS,
    )
    const recoveredMs = performance.now() - mendedMs
    const after = await load.askAll([...warm, ...cold])
    const asked = { redis: stores.redis - begun.redis, keyService: stores.keyService - begun.keyService }
    report(name, seen, { slowMs: SLOW_MS, recoveredMs, stores: asked })
    expect(wrongOf(seen)).toEqual([])
    expect(wrongOf(after)).toEqual([])
    return { seen, after, starvedMs: load.starvedMs }
  } finally {
    await load.stop()
    await mend()
  }
}

/** `/readyz` stays 200 and names what is degraded. */
async function untilDegraded(opsUrl: string, parts: Readonly<Record<string, string>>): Promise<void> {
  await until(`/readyz names ${JSON.stringify(parts)}`, async () => {
    const response = await fetch(`${opsUrl}/readyz`)
    expect(response.status).toBe(200)
    const said = (await response.json()) as Record<string, string>
    return Object.entries(parts).every(([part, state]) => said[part] === state)
  })
}

const failedOf = (seen: readonly Seen[]) => seen.filter(({ answer }) => answer !== '200')

async function openTiers(): Promise<number> {
  const scraped = await Promise.all(fleet.replicas.map(({ urls }) => scrape(urls.ops)))
  return scraped.filter(metrics => metrics.get('postern_key_store_circuit_open{tier="redis"}') === 1).length
}

// Each may measure again.
const LIMIT_MS = 400_000

describe('Redis', { timeout: LIMIT_MS }, () => {
  test('that refuses connections: every key is served, new ones by the key service', async () => {
    const seen = await suffer(
      {
        name: 'Redis gone',
        fault: () => fleet.redis.kill(),
        mend: () => (fleet.redis.isRunning ? undefined : fleet.redis.revive()),
        degraded: { redis: 'down', changes: 'disconnected', keyService: 'on' },
      },
      { atMost: FAILURES },
    )
    expect(failedOf(seen)).toEqual([])
  })

  test('that is frozen delays a few lookups by the timeout, and none after those', async () => {
    const seen = await suffer(
      {
        name: 'Redis frozen',
        fault: () => fleet.redis.freeze(),
        mend: () => fleet.redis.thaw(),
        // Without heartbeats, lookups skip Redis and go to the key service.
        degraded: { changes: 'disconnected', keyService: 'on' },
      },
      { atMost: FAILURES },
    )
    expect(failedOf(seen)).toEqual([])
  })

  test('that is busy with one command for seconds delays a few lookups by the timeout, and none after those', async () => {
    let busy: Promise<unknown> = Promise.resolve()
    const script = `
      local function now() local time = redis.call('TIME'); return time[1] * 1000 + time[2] / 1000 end
      local endMs = now() + tonumber(ARGV[1])
      while now() < endMs do end
      return 'done'`
    const seen = await suffer(
      {
        name: 'Redis busy',
        fault: () => {
          busy = fleet.redis.admin.eval(script, 0, '3000')
        },
        mend: () => busy,
      },
      { atMost: FAILURES },
    )
    expect(failedOf(seen)).toEqual([])
  })

  test('that accepts commands without replying, while heartbeats still arrive: the circuit breaker opens', async () => {
    let opened = 0
    const seen = await suffer(
      {
        name: 'Redis without replies',
        fault: () => {
          for (const { toRedis } of fleet.replicas) toRedis.hold('forth', link => !link.isSubscriber)
        },
        mend: async () => {
          opened = Math.max(opened, await openTiers())
          for (const { toRedis } of fleet.replicas) {
            toRedis.resume()
            toRedis.cut()
          }
        },
        degraded: { redis: 'down', changes: 'connected', keyService: 'on' },
      },
      { atMost: FAILURES },
    )
    expect(failedOf(seen)).toEqual([])
    expect(opened).toBe(REPLICAS)
  })

  test('that rejects new clients (maxclients) is handled like one that is down', async () => {
    const { admin } = fleet.redis
    const seen = await suffer({
      name: 'Redis with maxclients reached',
      fault: async () => {
        await admin.config('SET', 'maxclients', '1')
        for (const type of ['normal', 'pubsub'])
          await admin.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes')
      },
      mend: () => admin.config('SET', 'maxclients', '10000'),
      // It answers, with an error.
      degraded: { redis: 'failed', changes: 'disconnected', keyService: 'on' },
    })
    expect(failedOf(seen)).toEqual([])
  })

  test('that evicts records does not make their keys unknown', async () => {
    const { admin } = fleet.redis
    const seen = await suffer({
      name: 'eviction storm in Redis',
      fault: async () => {
        await admin.config('SET', 'maxmemory-policy', 'allkeys-lru')
        await admin.config('SET', 'maxmemory', '1mb')
        await until('every record is evicted', async () => (await fleet.redis.countRecords()) === 0)
      },
      mend: async () => {
        await admin.config('SET', 'maxmemory', '0')
        await admin.config('SET', 'maxmemory-policy', 'noeviction')
      },
    })
    expect(failedOf(seen)).toEqual([])
  })

  test.each([
    [
      'because its memory is full',
      () => fleet.redis.admin.config('SET', 'maxmemory', '1'),
      () => fleet.redis.admin.config('SET', 'maxmemory', '0'),
    ],
    [
      'because writing clients are paused',
      () => fleet.redis.admin.call('CLIENT', 'PAUSE', '60000', 'WRITE'),
      () => fleet.redis.admin.call('CLIENT', 'UNPAUSE'),
    ],
    [
      'because it is the replica of an unreachable server',
      () => fleet.redis.admin.call('REPLICAOF', '127.0.0.1', '1'),
      () => fleet.redis.admin.call('REPLICAOF', 'NO', 'ONE'),
    ],
  ])('that rejects writes %s is still read, and newly issued keys work at once', async (why, fault, mend) => {
    const seen = await suffer({
      name: `Redis rejects writes ${why}`,
      fault,
      mend,
      cold: () => fleet.issue(30),
    })
    expect(failedOf(seen)).toEqual([])
  })

  test('with unreadable records: each costs a lookup at the key service, and other keys are unaffected', async () => {
    const { admin } = fleet.redis
    const corrupt: ((record: string) => string)[] = [
      record => record.slice(0, -30),
      record => record.replace('"ws_1"', '"ws_2"'),
      record => record.replace(/"workspaceId":"[^"]*",/, ''),
      record => record.replace('"v":1', '"v":9'),
      record => record.replace(/.$/, String.fromCharCode(0)),
      record => `${record.slice(0, -1)},"name":"${'x'.repeat(10_000_000)}"}`,
    ]
    const seen = await suffer({
      name: 'corrupt records in Redis',
      cold: async () => {
        const keys = await fleet.issue(30)
        for (const [index, { secret }] of keys.entries()) {
          const name = recordKeyName(digestKey(secret))
          const record = await until('the record is in Redis', () => admin.get(name))
          await admin.set(name, corrupt[index % corrupt.length]?.(record) ?? '')
        }
        return keys
      },
      fault: () => {},
      mend: () => {},
      degraded: { redis: 'ok', changes: 'connected', keyService: 'on' },
    })
    expect(failedOf(seen)).toEqual([])
  })

  test('that disconnects slow subscribers and drops their messages loses no revocation', async () => {
    const { admin } = fleet.redis
    const revoked: IssuedKey[] = []
    const accepted: Seen[] = []
    const cuts = async () =>
      (await Promise.all(fleet.replicas.map(({ urls }) => scrape(urls.ops)))).map(
        metrics => metrics.get('postern_redis_reconnects_total') ?? 0,
      )
    const before = await cuts()
    const seen = await suffer({
      name: 'subscribers cut for their output buffer',
      fault: async () => {
        await admin.config('SET', 'client-output-buffer-limit', 'pubsub 1kb 1kb 1')
        const keys = await fleet.issue(5)
        const load = new ObservedLoad(fleet)
        for (const key of keys) {
          await load.askAll([key])
          // Far more than the 16 KiB per client that Redis buffers in addition to the limit, followed by the change.
          const burst = admin.multi()
          for (let count = 0; count < 1_000; count++) {
            burst.publish('postern:keys:changed', JSON.stringify({ beat: 'burst', at: Date.now() }))
          }
          await burst.exec()
          await fleet.revoke(key)
          revoked.push(key)
          await until(
            'every gateway rejects the key',
            async () => {
              const answers = await load.askAll([key])
              return answers.every(({ answer }) => answer === 'key_revoked')
            },
            5_000,
          )
        }
        for (const key of revoked) accepted.push(...(await load.askAll([key])))
        await load.stop()
      },
      mend: () => admin.config('SET', 'client-output-buffer-limit', 'pubsub 32mb 8mb 60'),
    })
    expect(failedOf(seen)).toEqual([])
    expect(accepted.filter(({ answer }) => answer !== 'key_revoked')).toEqual([])
    for (const [replica, count] of (await cuts()).entries())
      expect(count).toBeGreaterThan(before[replica] ?? 0)
  })
})

describe('the key service', { timeout: LIMIT_MS }, () => {
  /** Keys that are in the database and not in Redis. */
  async function unknownToRedis(count: number): Promise<IssuedKey[]> {
    const keys = await fleet.issue(count)
    for (const { secret } of keys) {
      const name = recordKeyName(digestKey(secret))
      await until('the record is in Redis', async () => (await fleet.redis.admin.exists(name)) === 1)
      await fleet.redis.admin.del(name)
    }
    return keys
  }

  test('that does not respond: known keys are served, others get 503, soon without delay', async () => {
    let hidden: IssuedKey[] = []
    const seen = await suffer(
      {
        name: 'key service without responses',
        cold: async () => {
          hidden = await unknownToRedis(30)
          const known = await fleet.issue(20)
          return hidden.flatMap((key, index) => [key, ...known.slice(index, index + 1)])
        },
        fault: () => {
          for (const { toKeyService } of fleet.replicas) toKeyService.hold('forth')
        },
        mend: () => {
          for (const { toKeyService } of fleet.replicas) toKeyService.resume()
        },
        degraded: { redis: 'ok', changes: 'connected', keyService: 'down' },
      },
      { atMost: FAILURES, hidden: () => hidden },
    )
    const isHidden = new Set(hidden.map(({ id }) => id))
    expect(failedOf(seen).every(({ key }) => isHidden.has(key))).toBe(true)
    expect(failedOf(seen)).toHaveLength(hidden.length * REPLICAS)
  })

  test('frozen together with the console: gateways are disconnected and serve the records in Redis', async () => {
    // Lookups of a warm key and a cold one can wait together and fail together.
    const seen = await suffer(
      {
        name: 'console frozen',
        fault: () => fleet.console.process.child.kill('SIGSTOP'),
        mend: () => fleet.console.process.child.kill('SIGCONT'),
        degraded: { redis: 'ok', changes: 'disconnected', keyService: 'down' },
        // Lookups go on after the second that it takes to notice.
        pauseMs: 50,
      },
      { atMost: FAILURES * 2 },
    )
    expect(failedOf(seen)).toEqual([])
  })
})

describe('Redis and the key service both down', () => {
  // At the same time: both mostly wait.
  test.concurrent.each([
    { staleSeconds: 4, what: 'a verified key is accepted until the stale limit, and no longer' },
    { staleSeconds: 0, what: 'no key is accepted that was not verified within the last second' },
  ])('with a stale limit of $staleSeconds s $what; expiry always applies', async ({ staleSeconds }) => {
    const own = await Fleet.start(1, {
      ...SETTINGS,
      POSTERN_REDIS_CIRCUIT_FAILURES: '1',
      POSTERN_KEY_SERVICE_CIRCUIT_FAILURES: '1',
      POSTERN_KEYS_STALE_SECONDS: String(staleSeconds),
    })
    try {
      const boundMs = Math.max(TRUSTED_MS, staleSeconds * 1000)
      const gone = await measured({
        what: `both gone, staleSeconds ${staleSeconds}`,
        pids: () => own.pids,
        measure: () => takeBothAway(own, staleSeconds),
        missedByMs: seen => missedByMs(seen, { boundMs, isStaleAccepted: staleSeconds > 3 }),
      })
      expectBothGone(gone, { boundMs, isStaleAccepted: staleSeconds > 3 })
    } finally {
      await own.stop()
    }
  })
})

interface BothGone {
  readonly goneAtMs: number
  /** Responses to the key that lasts, and to the one that expires during the fault at `expiresAtMs`. */
  readonly lasting: readonly Seen[]
  readonly ending: readonly Seen[]
  readonly expiresAtMs: number
}

interface StaleLimits {
  /** From the fault on, within which the last request is accepted. */
  readonly boundMs: number
  /** Whether some are accepted that were not verified for three seconds. */
  readonly isStaleAccepted: boolean
}

const acceptedOf = (seen: readonly Seen[]) => seen.filter(({ answer }) => answer === '200')
const acceptsStale = ({ lasting, goneAtMs }: BothGone) =>
  acceptedOf(lasting).some(({ sentAtMs }) => sentAtMs > goneAtMs + 3_000)

/** By how much the responses miss what they should be, which a starved gateway, client or store explains. */
function missedByMs(gone: BothGone, { boundMs, isStaleAccepted }: StaleLimits): number {
  const { goneAtMs, expiresAtMs, lasting } = gone
  const lastAcceptedMs = Math.max(0, ...acceptedOf(lasting).map(({ sentAtMs }) => sentAtMs - goneAtMs))
  // The other key must be known to the gateway before it expires.
  const isEarly = goneAtMs < expiresAtMs && acceptsStale(gone) === isStaleAccepted
  return Math.max(lastAcceptedMs - boundMs, isEarly ? 0 : STARVED_MS)
}

function expectBothGone(gone: BothGone, { boundMs, isStaleAccepted }: StaleLimits): void {
  const { goneAtMs, expiresAtMs, lasting, ending } = gone
  expect(wrongOf(lasting)).toEqual([])
  expect(acceptedOf(lasting).filter(({ sentAtMs }) => sentAtMs > goneAtMs + boundMs)).toEqual([])
  expect(acceptsStale(gone)).toBe(isStaleAccepted)
  expect(lasting.at(-1)?.answer).toBe('key_store_unavailable')
  // The other key is accepted until its expiry; afterwards it is expired or unavailable, and never accepted.
  const late = ending.filter(({ sentAtMs }) => sentAtMs >= expiresAtMs)
  expect(late.filter(({ answer }) => !['key_expired', 'key_store_unavailable'].includes(answer))).toEqual([])
  expect(late.length).toBeGreaterThan(0)
}

async function takeBothAway(own: Fleet, staleSeconds: number): Promise<BothGone> {
  await own.untilHealthy()
  const [lasting, ending] = await own.issue(2)
  if (lasting === undefined || ending === undefined) throw new Error('Two keys were issued')
  const load = new ObservedLoad(own)
  await until('both keys are served', async () => {
    const answers = await load.askAll([lasting, ending])
    return answers.every(({ answer }) => answer === '200')
  })
  const expiresAtMs = await own.endSoon(ending, 2)
  await load.askAll([lasting, ending])
  const begun = await load.storeRequests()
  own.redis.freeze()
  for (const { toKeyService } of own.replicas) toKeyService.hold('forth')
  const goneAtMs = Date.now()
  const seen: Seen[] = []
  const endMs = goneAtMs + (staleSeconds + 2.5) * 1000
  while (Date.now() < endMs) seen.push(...(await load.askAll([lasting, ending])))
  const stores = await load.storeRequests()

  own.redis.thaw()
  for (const { toKeyService } of own.replicas) toKeyService.resume()
  const mendedMs = performance.now()
  await until(
    'the key is served again',
    async () => (await load.send(lasting, 0)).answer === '200',
    RECOVERY_MS,
  )
  const asked = { redis: stores.redis - begun.redis, keyService: stores.keyService - begun.keyService }
  report(
    `both gone, staleSeconds ${staleSeconds}`,
    seen.filter(({ key }) => key === lasting.id),
    {
      slowMs: SLOW_MS,
      recoveredMs: performance.now() - mendedMs,
      stores: asked,
    },
  )
  await load.stop()
  const of = (key: IssuedKey) => seen.filter(each => each.key === key.id)
  return { goneAtMs, expiresAtMs, lasting: of(lasting), ending: of(ending) }
}
