import { RateLimiterRes } from 'rate-limiter-flexible'
import { describe, expect, test } from 'vitest'
import { Circuit } from '../../src/domain/circuit.ts'
import {
  counterName,
  currentWindow,
  type PolicySettings,
  type RatePolicy,
} from '../../src/domain/rate-limit.ts'
import { classifyRedisError, type RedisFailure } from '../../src/domain/redis-failure.ts'
import { RedisCounters } from '../../src/limits/create-rate-limits.ts'
import { NearLimits } from '../../src/limits/near-limits.ts'
import { LocalCounters, RateLimiter, UnknownPlans } from '../../src/limits/rate-limiter.ts'
import { FailureLog } from '../../src/observability/failure-log.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { exampleRecord, grantOf, routeNamed } from '../domain/examples.ts'
import { LogSpy } from '../support/log-spy.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { metricValue } from '../support/metric-value.ts'
import { settled } from '../support/until.ts'

const MINUTE: RatePolicy = { name: 'minute', per: 'workspace', requests: 6, windowSeconds: 60 }
const BURST: RatePolicy = { name: 'burst', per: 'key', requests: 2, windowSeconds: 1 }
const ROUTE = routeNamed('files')
const FIRST = { route: ROUTE, grant: grantOf(exampleRecord({ id: 'key_1' })) }
const SECOND = { route: ROUTE, grant: grantOf(exampleRecord({ id: 'key_2' })) }

/** A Redis double that counts, rejects or hangs, as the test sets. */
class RedisDouble {
  /** The counter name of each received command. */
  readonly commands: string[] = []
  reconnects = 0
  isReady = true
  mode: 'counts' | 'hangs' | 'rejects' | 'is a replica' = 'counts'
  readonly #clock: ManualClock
  readonly #windows = new Map<string, { used: number; endMs: number }>()
  readonly #waiting: ((error: Error) => void)[] = []

  constructor(clock: ManualClock) {
    this.#clock = clock
  }

  reconnect(): void {
    this.reconnects++
  }

  writeTogether(): void {}

  answered(): void {}

  refused(error: Error): RedisFailure {
    return classifyRedisError(error, error.name === 'ReplyError')
  }

  async penalty(counter: string | number, _points: number, { customDuration }: Record<string, number>) {
    const name = String(counter)
    this.commands.push(name)
    if (this.mode === 'hangs') await new Promise((_, reject) => this.#waiting.push(reject))
    if (this.mode === 'rejects') throw refusal('NOPERM no permissions')
    if (this.mode === 'is a replica') throw refusal('READONLY a replica takes no writes')
    return this.#count(name, (customDuration ?? 0) * 1000)
  }

  async raise(name: string, used: number): Promise<void> {
    const window = this.#windows.get(name)
    if (window !== undefined) window.used = Math.max(window.used, used)
  }

  /** As after a restart without persistence. */
  loseEverything(): void {
    this.#windows.clear()
  }

  /** Lets all waiting commands time out. */
  timeOut(): void {
    for (const reject of this.#waiting.splice(0)) reject(new Error('Command timed out'))
  }

  get waiting(): number {
    return this.#waiting.length
  }

  #count(name: string, windowMs: number): RateLimiterRes {
    const nowMs = this.#clock.monotonicMs()
    let window = this.#windows.get(name)
    if (window === undefined || window.endMs <= nowMs) window = { used: 0, endMs: nowMs + windowMs }
    this.#windows.set(name, window)
    return new RateLimiterRes(0, window.endMs - nowMs, ++window.used)
  }
}

function refusal(text: string): Error {
  return Object.assign(new Error(text), { name: 'ReplyError' })
}

type World = Partial<PolicySettings> & { replicas?: number; redis?: boolean }

function world({ policies = [MINUTE, BURST], plans = {}, replicas = 1, redis = true }: World = {}) {
  const clock = new ManualClock()
  const metrics = createMetrics()
  const log = new LogSpy()
  const double = new RedisDouble(clock)
  const shared = new RedisCounters({
    connection: double,
    windows: double,
    raise: (name, used) => double.raise(name, used),
    circuit: new Circuit({ failures: 3, openMs: 500 }),
    clock,
    failures: new FailureLog('redis rate limits', log, clock),
  })
  const unknownPlans = new UnknownPlans(log, metrics)
  const nearLimits = new NearLimits()
  const rateLimiter = new RateLimiter({
    settings: { policies, plans },
    gateways: { value: replicas },
    shared: redis ? shared : null,
    local: new LocalCounters(),
    unknownPlans,
    nearLimits,
    clock,
    metrics,
  })
  const limiter = { count: async (who: typeof FIRST) => (await rateLimiter.count(who)) ?? [] }
  const decided = (labels: Record<string, string>) => metricValue(metrics.limitDecisions, labels)
  return { clock, metrics, log, redis: double, rateLimiter, limiter, unknownPlans, nearLimits, decided }
}

const exceeded = (counts: readonly { policy: RatePolicy; exceeded: boolean }[]) =>
  counts.filter(count => count.exceeded).map(({ policy }) => policy.name)

/** As many timeouts as the circuit tolerates. */
async function openCircuit({
  limiter,
  redis,
}: Pick<ReturnType<typeof world>, 'limiter' | 'redis'>): Promise<void> {
  redis.mode = 'hangs'
  for (let request = 0; request < 3; request++) {
    const waits = limiter.count(FIRST)
    redis.timeOut()
    await waits
  }
}

describe('while Redis counts', () => {
  test('two keys of a workspace share its limit, and each has its own', async () => {
    const { limiter, clock } = world()
    for (let second = 0; second < 3; second++) {
      expect(exceeded(await limiter.count(FIRST))).toEqual([])
      expect(exceeded(await limiter.count(SECOND))).toEqual([])
      clock.advance(1_000)
    }
    expect(exceeded(await limiter.count(FIRST))).toContain('minute')
    expect(exceeded(await limiter.count(SECOND))).toContain('minute')
  })

  test('an exhausted window causes no command until it ends, and uses up no other limit', async () => {
    const { limiter, redis, clock } = world()
    await limiter.count(FIRST)
    await limiter.count(FIRST)
    const before = redis.commands.length
    for (let again = 0; again < 50; again++) {
      const counts = await limiter.count(FIRST)
      expect(counts.map(({ policy, resetMs }) => [policy.name, resetMs])).toEqual([['burst', 1_000]])
    }
    expect(redis.commands).toHaveLength(before)
    clock.advance(999)
    expect(await limiter.count(FIRST)).toMatchObject([{ policy: BURST, exceeded: true, resetMs: 1 }])
    clock.advance(1)
    expect(exceeded(await limiter.count(FIRST))).toEqual([])
    expect(redis.commands.length).toBeGreaterThan(before)
  })

  test('each decision is counted once for each deciding policy, in series that exist from the start', async () => {
    const { limiter, metrics, decided } = world({ policies: [BURST] })
    expect((await metrics.limitDecisions.get()).values).toHaveLength(4)
    for (let request = 0; request < 5; request++) await limiter.count(FIRST)
    expect(await decided({ policy: 'burst', outcome: 'allowed', backend: 'redis' })).toBe(2)
    expect(await decided({ policy: 'burst', outcome: 'limited', backend: 'redis' })).toBe(3)
  })
})

describe('while Redis does not reply', () => {
  test('after the timeout each gateway applies its share of a limit', async () => {
    const { limiter, redis, decided } = world({ policies: [MINUTE], replicas: 3 })
    redis.mode = 'hangs'
    const waits = limiter.count(FIRST)
    redis.timeOut()
    expect(await waits).toMatchObject([{ exceeded: false, remaining: 1 }])
    redis.isReady = false
    expect(exceeded(await limiter.count(FIRST))).toEqual([])
    expect(exceeded(await limiter.count(SECOND))).toEqual(['minute'])
    expect(await decided({ policy: 'minute', outcome: 'allowed', backend: 'local' })).toBe(2)
    expect(await decided({ policy: 'minute', outcome: 'limited', backend: 'local' })).toBe(1)
  })

  test('after several consecutive timeouts no request waits for Redis: only a probe is sent', async () => {
    const { limiter, redis, clock } = world({ policies: [MINUTE] })
    await openCircuit({ limiter, redis })
    for (let request = 0; request < 10; request++) await limiter.count(FIRST)
    expect(redis.commands).toHaveLength(3)
    clock.advance(500)
    await limiter.count(FIRST)
    await limiter.count(FIRST)
    expect([redis.commands.length, redis.waiting]).toEqual([4, 1])
  })

  test('Redis counts again as soon as a probe succeeds', async () => {
    const { limiter, redis, clock, decided, log } = world({ policies: [MINUTE] })
    await openCircuit({ limiter, redis })
    redis.mode = 'counts'
    clock.advance(500)
    await limiter.count(SECOND)
    await settled()
    await limiter.count(SECOND)
    expect(await decided({ policy: 'minute', outcome: 'allowed', backend: 'redis' })).toBe(1)
    expect(log.lines.map(({ message }) => message)).toEqual([
      'redis rate limits failing',
      'redis rate limits recovered',
    ])
  })

  test('a request that one policy rejects is counted for that policy alone', async () => {
    const { limiter, decided } = world({ redis: false })
    for (const expected of [[], [], ['burst'], ['burst']]) {
      const counts = await limiter.count(FIRST)
      expect(counts.filter(count => count.exceeded).map(({ policy }) => policy.name)).toEqual(expected)
      expect(counts).toHaveLength(expected.length === 0 ? 2 : 1)
    }
    const limited = (policy: string) => decided({ policy, outcome: 'limited', backend: 'local' })
    expect([await limited('minute'), await limited('burst')]).toEqual([0, 2])
  })

  test('without Redis there are no Redis series, and the limits still apply', async () => {
    const { limiter, metrics, clock } = world({ policies: [MINUTE], redis: false })
    expect((await metrics.limitDecisions.get()).values.map(({ labels }) => labels['backend'])).toEqual([
      'local',
      'local',
    ])
    for (let request = 0; request < 6; request++) expect(exceeded(await limiter.count(FIRST))).toEqual([])
    expect(exceeded(await limiter.count(FIRST))).toEqual(['minute'])
    clock.advance(60_000)
    expect(exceeded(await limiter.count(FIRST))).toEqual([])
  })
})

describe('a command that Redis rejects', () => {
  test('is counted locally, and the next request asks Redis again: a permission may be granted at any time', async () => {
    const { limiter, redis, decided } = world({ policies: [MINUTE] })
    redis.mode = 'rejects'
    for (let request = 0; request < 5; request++) expect(exceeded(await limiter.count(FIRST))).toEqual([])
    redis.mode = 'counts'
    await limiter.count(SECOND)
    expect(await decided({ policy: 'minute', outcome: 'limited', backend: 'redis' })).toBe(0)
    expect(redis.commands).toHaveLength(6)
    expect(redis.reconnects).toBe(0)
  })

  test('ends the time without Redis, as one that it executes does: the next request asks it', async () => {
    const { limiter, redis, clock } = world({ policies: [MINUTE] })
    await openCircuit({ limiter, redis })
    redis.mode = 'rejects'
    clock.advance(500)
    for (const _ of [1, 2, 3]) {
      await limiter.count(FIRST)
      await settled()
    }
    expect(redis.commands).toHaveLength(3 + 3)
  })

  test('because it became a replica causes a reconnect, to the new primary', async () => {
    const { limiter, redis } = world({ policies: [MINUTE] })
    redis.mode = 'is a replica'
    await limiter.count(FIRST)
    expect(redis.reconnects).toBe(1)
  })
})

describe('a key with a plan', () => {
  const plans = {
    free: { policies: [{ ...MINUTE, requests: 2 }] },
    business: { policies: [{ ...MINUTE, requests: 4 }] },
  }
  const withPlan = (plan: string | null, id = 'key_1') => ({
    route: ROUTE,
    grant: { ...FIRST.grant, id, plan },
  })

  test('has the limits of its plan, one without a plan has the others', async () => {
    const { limiter } = world({ policies: [BURST], plans })
    expect(await limiter.count(withPlan('free'))).toMatchObject([
      { policy: { name: 'minute' }, remaining: 1 },
    ])
    expect(await limiter.count(withPlan(null))).toMatchObject([{ policy: { name: 'burst' }, remaining: 1 }])
  })

  test('that changes keeps what it used of a policy that both plans have', async () => {
    const { limiter, redis } = world({ plans })
    for (const _ of [1, 2]) await limiter.count(withPlan('free'))
    expect(exceeded(await limiter.count(withPlan('free')))).toEqual(['minute'])
    expect(redis.commands).toHaveLength(2)
    expect(await limiter.count(withPlan('business'))).toMatchObject([{ exceeded: false, remaining: 1 }])
    expect(exceeded(await limiter.count(withPlan('free')))).toEqual(['minute'])
  })

  test('that this gateway does not know has the limits of keys without a plan, is counted, and logged once', async () => {
    const { limiter, metrics, log, unknownPlans } = world({ policies: [BURST], plans })
    for (const _ of [1, 2]) await limiter.count(withPlan('gold'))
    expect(exceeded(await limiter.count(withPlan('gold')))).toEqual(['burst'])
    expect(await metricValue(metrics.unknownPlanRequests, {})).toBe(3)
    expect(log.lines).toMatchObject([
      { message: 'plan unknown, limits.policies apply', fields: { plan: 'gold' } },
    ])
    unknownPlans.policiesChanged()
    await limiter.count(withPlan('gold'))
    expect(log.lines).toHaveLength(2)
  })

  test('never fills the log: of any number of unknown names a hundred are logged', async () => {
    const { limiter, log, metrics } = world({ policies: [] })
    for (let name = 0; name < 1_000; name++) await limiter.count(withPlan(`plan-${name}`))
    expect(log.lines).toHaveLength(100)
    expect(await metricValue(metrics.unknownPlanRequests, {})).toBe(1_000)
  })
})

describe('policies that change while the gateway runs', () => {
  test('keep their counts, and a limit that was raised or lowered holds from the next request', async () => {
    const { limiter, rateLimiter } = world({ policies: [{ ...MINUTE, requests: 2 }] })
    for (const _ of [1, 2]) await limiter.count(FIRST)
    expect(exceeded(await limiter.count(FIRST))).toEqual(['minute'])
    rateLimiter.replacePolicies({ policies: [{ ...MINUTE, requests: 5 }], plans: {} })
    expect(await limiter.count(FIRST)).toMatchObject([{ exceeded: false, remaining: 2 }])
    rateLimiter.replacePolicies({ policies: [{ ...MINUTE, requests: 3 }], plans: {} })
    expect(exceeded(await limiter.count(FIRST))).toEqual(['minute'])
  })

  test('begin a new window if their window is another', async () => {
    const { limiter, rateLimiter } = world({ policies: [{ ...MINUTE, requests: 1 }] })
    await limiter.count(FIRST)
    expect(exceeded(await limiter.count(FIRST))).toEqual(['minute'])
    const hour = { ...MINUTE, requests: 1, windowSeconds: 3600 }
    rateLimiter.replacePolicies({ policies: [hour], plans: {} })
    expect(exceeded(await limiter.count(FIRST))).toEqual([])
  })

  test('are counted in metrics, also those that are new', async () => {
    const { limiter, rateLimiter, decided } = world({ policies: [] })
    expect(rateLimiter.count(FIRST)).toBe(null)
    rateLimiter.replacePolicies({ policies: [BURST], plans: {} })
    await limiter.count(FIRST)
    expect(await decided({ policy: 'burst', outcome: 'allowed', backend: 'redis' })).toBe(1)
  })
})

describe.each([
  ['in Redis', true],
  ['locally', false],
])('a limit of the calendar month, counted %s,', (_, redis) => {
  const QUOTA: RatePolicy = { name: 'quota', per: 'workspace', requests: 2, window: 'month' }
  const november = () => {
    const made = world({ policies: [QUOTA], redis })
    made.clock.advance(Date.parse('2026-11-30T23:59:00Z') - made.clock.wallMs())
    return made
  }

  test('holds until the month ends, and says so', async () => {
    const { limiter, clock } = november()
    expect(await limiter.count(FIRST)).toMatchObject([
      { windowSeconds: 30 * 86_400, remaining: 1, resetMs: 60_000 },
    ])
    await limiter.count(FIRST)
    clock.advance(59_999)
    expect(await limiter.count(FIRST)).toMatchObject([{ exceeded: true, resetMs: 1 }])
    clock.advance(1)
    expect(await limiter.count(FIRST)).toMatchObject([
      { exceeded: false, windowSeconds: 31 * 86_400, remaining: 1, resetMs: 31 * 86_400_000 },
    ])
  })

  test('ends with the month if the clock is set forward, and the time that is left follows the clock', async () => {
    const { limiter, clock } = november()
    for (const _ of [1, 2]) await limiter.count(FIRST)
    clock.stepWallClock(30_000)
    expect(await limiter.count(FIRST)).toMatchObject([{ exceeded: true, resetMs: 30_000 }])
    clock.stepWallClock(30_000)
    expect(exceeded(await limiter.count(FIRST))).toEqual([])
  })
})

describe('windows that are nearly used up', () => {
  const plans = { free: { policies: [{ ...MINUTE, requests: 5 }] } }

  test('are noted for the next report, under the plan that holds', async () => {
    const { limiter, nearLimits } = world({ plans })
    const free = { ...FIRST, grant: { ...FIRST.grant, plan: 'free' } }
    const unknown = { ...FIRST, grant: { ...FIRST.grant, plan: 'gone' } }
    for (let sent = 0; sent < 3; sent++) await limiter.count(free)
    expect(nearLimits.take(10)).toEqual([])
    await limiter.count(free)
    expect(nearLimits.take(10)).toMatchObject([{ plan: 'free', policy: 'minute', keyId: null, used: 4 }])
    await limiter.count(unknown)
    expect(nearLimits.take(10)).toMatchObject([{ plan: null, requests: 6, used: 5 }])
  })

  test('are noted each by itself where one request nears several', async () => {
    const own: RatePolicy = { name: 'own', per: 'key', requests: 5, windowSeconds: 60 }
    const { limiter, nearLimits } = world({ policies: [MINUTE, own] })
    for (let sent = 0; sent < 5; sent++) await limiter.count(FIRST)
    const noted = nearLimits.take(10).map(({ policy, keyId, used }) => [policy, keyId, used])
    expect(noted.toSorted()).toEqual([
      ['minute', null, 5],
      ['own', 'key_1', 5],
    ])
  })

  test('are not noted by a gateway that counts alone: it does not know how much is used', async () => {
    const { limiter, nearLimits } = world({ redis: false })
    for (let sent = 0; sent < 10; sent++) await limiter.count(FIRST)
    expect(nearLimits.size).toBe(0)
  })
})

test('a month that has ended is not granted again by a gateway whose clock is behind', async () => {
  const quota: RatePolicy = { name: 'quota', per: 'workspace', requests: 2, window: 'month' }
  const { limiter, clock } = world({ policies: [quota] })
  clock.advance(Date.parse('2026-11-30T23:59:00Z') - clock.wallMs())
  for (const _ of [1, 2]) await limiter.count(FIRST)
  clock.advance(3_600_000)
  expect(exceeded(await limiter.count(FIRST))).toEqual([])
  clock.stepWallClock(-3_600_000)
  expect(exceeded(await limiter.count(SECOND))).toEqual(['quota'])
})

describe('if Redis loses everything', () => {
  const quota: RatePolicy = { name: 'quota', per: 'workspace', requests: 10, window: 'month' }

  test('a month goes on where a gateway saw it last, in Redis too, and is used up as if nothing was lost', async () => {
    const { limiter, redis } = world({ policies: [quota] })
    const name = counterName(quota, currentWindow(quota, Date.UTC(2026, 10)), FIRST.grant)
    for (let request = 0; request < 4; request++) await limiter.count(FIRST)
    redis.loseEverything()
    for (const remaining of [5, 4]) expect(await limiter.count(FIRST)).toMatchObject([{ remaining }])
    // A replica takes over that had not received the last request.
    redis.loseEverything()
    await redis.penalty(name, 1, { customDuration: 86_400 })
    await redis.raise(name, 5)
    expect(await limiter.count(FIRST)).toMatchObject([{ remaining: 3 }])
    // Another gateway, which saw fewer requests, goes on from there.
    await redis.raise(name, 3)
    expect(await limiter.count(SECOND)).toMatchObject([{ remaining: 2 }])
  })

  test('requests that are on the way together are each counted', async () => {
    const { limiter, redis } = world({ policies: [quota] })
    for (let request = 0; request < 4; request++) await limiter.count(FIRST)
    redis.loseEverything()
    const counts = await Promise.all(Array.from({ length: 8 }, () => limiter.count(FIRST)))
    expect(counts.flatMap(exceeded)).toHaveLength(2)
  })

  test('a window of seconds begins anew', async () => {
    const { limiter, redis } = world({ policies: [MINUTE] })
    for (let request = 0; request < 4; request++) await limiter.count(FIRST)
    redis.loseEverything()
    expect(await limiter.count(FIRST)).toMatchObject([{ remaining: 5 }])
  })
})
