import { type RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { describe, expect, test } from 'vitest'
import { Circuit } from '../../src/domain/circuit.ts'
import type { RatePolicy } from '../../src/domain/rate-limit.ts'
import { LocalCounters } from '../../src/limits/local-counters.ts'
import { RateLimiter } from '../../src/limits/rate-limiter.ts'
import { RedisCounters } from '../../src/limits/redis-counters.ts'
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

/** A Redis that counts, refuses, or does not answer, when a test says so. */
class RedisDouble {
  /** The name of each counter that it was asked for. */
  readonly asked: string[] = []
  remade = 0
  isReady = true
  mode: 'counts' | 'hangs' | 'refuses' | 'is a replica' = 'counts'
  readonly #clock: ManualClock
  readonly #windows = new Map<string, { used: number; endMs: number }>()
  readonly #waiting: ((error: Error) => void)[] = []

  constructor(clock: ManualClock) {
    this.#clock = clock
  }

  reconnect(): void {
    this.remade++
  }

  writeTogether(): void {}

  limiter({ windowSeconds }: RatePolicy): Pick<RateLimiterRedis, 'penalty'> {
    return {
      penalty: async counter => {
        const name = String(counter)
        this.asked.push(name)
        if (this.mode === 'hangs') await new Promise((_, reject) => this.#waiting.push(reject))
        if (this.mode === 'refuses') throw refusal('NOPERM no permissions')
        if (this.mode === 'is a replica') throw refusal('READONLY a replica takes no writes')
        return this.#count(name, windowSeconds * 1000)
      },
    }
  }

  /** The deadline of the commands that wait is over. */
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

function world({ policies = [MINUTE, BURST], replicas = 1, redis = true } = {}) {
  const clock = new ManualClock()
  const metrics = createMetrics()
  const log = new LogSpy()
  const double = new RedisDouble(clock)
  const shared = new RedisCounters({
    connection: double,
    limiters: new Map(policies.map(policy => [policy, double.limiter(policy)])),
    circuit: new Circuit({ failures: 3, openMs: 500 }),
    clock,
    failures: new FailureLog('redis rate limits', log, clock),
  })
  const limiter = new RateLimiter({
    policies,
    replicas,
    shared: redis ? shared : null,
    local: new LocalCounters(),
    clock,
    metrics,
  })
  const decided = (labels: Record<string, string>) => metricValue(metrics.limitDecisions, labels)
  return { clock, metrics, log, redis: double, limiter, decided }
}

const exceeded = (counts: readonly { policy: RatePolicy; exceeded: boolean }[]) =>
  counts.filter(count => count.exceeded).map(({ policy }) => policy.name)

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

  test('what is exhausted is not asked for again before its window ends, and uses up nothing else', async () => {
    const { limiter, redis, clock } = world()
    await limiter.count(FIRST)
    await limiter.count(FIRST)
    const asked = redis.asked.length
    for (let again = 0; again < 50; again++) {
      const counts = await limiter.count(FIRST)
      expect(counts.map(({ policy, resetMs }) => [policy.name, resetMs])).toEqual([['burst', 1_000]])
    }
    expect(redis.asked).toHaveLength(asked)
    clock.advance(999)
    expect(exceeded(await limiter.count(FIRST))).toEqual(['burst'])
    clock.advance(1)
    await limiter.count(FIRST)
    expect(redis.asked.length).toBeGreaterThan(asked)
  })

  test('each decision is counted once per policy that made it, in series that are there from the start', async () => {
    const { limiter, metrics, decided } = world({ policies: [BURST] })
    expect((await metrics.limitDecisions.get()).values).toHaveLength(4)
    for (let asked = 0; asked < 5; asked++) await limiter.count(FIRST)
    expect(await decided({ policy: 'burst', outcome: 'allowed', backend: 'redis' })).toBe(2)
    expect(await decided({ policy: 'burst', outcome: 'limited', backend: 'redis' })).toBe(3)
  })
})

describe('while Redis does not answer', () => {
  test('each gateway grants its part of a limit by itself, from the moment that the deadline is over', async () => {
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

  test('after some time-outs in a row nobody waits for it: only a probe goes out, beside the request', async () => {
    const { limiter, redis, clock } = world({ policies: [MINUTE] })
    redis.mode = 'hangs'
    for (let asked = 0; asked < 3; asked++) {
      const waits = limiter.count(FIRST)
      redis.timeOut()
      await waits
    }
    for (let asked = 0; asked < 10; asked++) await limiter.count(FIRST)
    expect(redis.asked).toHaveLength(3)
    clock.advance(500)
    await limiter.count(FIRST)
    await limiter.count(FIRST)
    expect([redis.asked.length, redis.waiting]).toEqual([4, 1])
  })

  test('it counts again as soon as a probe was answered', async () => {
    const { limiter, redis, clock, decided, log } = world({ policies: [MINUTE] })
    redis.mode = 'hangs'
    for (let asked = 0; asked < 3; asked++) {
      const waits = limiter.count(FIRST)
      redis.timeOut()
      await waits
    }
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

  test('without any Redis there are no counters of one, and the limits hold all the same', async () => {
    const { limiter, metrics, clock } = world({ policies: [MINUTE], redis: false })
    expect((await metrics.limitDecisions.get()).values.map(({ labels }) => labels['backend'])).toEqual([
      'local',
      'local',
    ])
    for (let asked = 0; asked < 6; asked++) expect(exceeded(await limiter.count(FIRST))).toEqual([])
    expect(exceeded(await limiter.count(FIRST))).toEqual(['minute'])
    clock.advance(60_000)
    expect(exceeded(await limiter.count(FIRST))).toEqual([])
  })
})

describe('what Redis refuses', () => {
  test('is counted here, and is no reason not to ask again: a right may be granted at any time', async () => {
    const { limiter, redis, decided } = world({ policies: [MINUTE] })
    redis.mode = 'refuses'
    for (let asked = 0; asked < 5; asked++) expect(exceeded(await limiter.count(FIRST))).toEqual([])
    redis.mode = 'counts'
    await limiter.count(SECOND)
    expect(await decided({ policy: 'minute', outcome: 'limited', backend: 'redis' })).toBe(0)
    expect(redis.asked).toHaveLength(6)
    expect(redis.remade).toBe(0)
  })

  test('as a replica, it refuses because it was a primary: the connection is made again, to whoever is one', async () => {
    const { limiter, redis } = world({ policies: [MINUTE] })
    redis.mode = 'is a replica'
    await limiter.count(FIRST)
    expect(redis.remade).toBe(1)
  })
})
