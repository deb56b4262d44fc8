import type { CircuitSettings } from '../../src/domain/circuit.ts'
import type { Lookup, TierName } from '../../src/domain/key/key-record.ts'
import { InvalidationListener } from '../../src/keys/invalidation/invalidation-listener.ts'
import { LookupChain } from '../../src/keys/lookup-chain.ts'
import type { KeyTier, TierResult } from '../../src/keys/tiers/key-store.ts'
import { MemoryStore } from '../../src/keys/tiers/memory-store.ts'
import { type BreakingTier, withBreaker, withObservation } from '../../src/keys/tiers/resilience.ts'
import { UnsignedLookupBudget } from '../../src/keys/unsigned-lookup-budget.ts'
import { FailureLog } from '../../src/observability/failure-log.ts'
import { createMetrics, type Metrics } from '../../src/observability/metrics/metrics.ts'
import { ChaosTier } from './chaos-tier.ts'
import { grantOf } from './key-records.ts'
import { LogSpy } from './log-spy.ts'
import { ManualClock } from './manual-clock.ts'
import { changeMessage, heartbeatMessage, MESSAGE_KEY } from './messages.ts'

export interface WorldOptions {
  readonly ttlMs?: number
  readonly absentTtlMs?: number
  readonly staleMs?: number
  readonly maxEntries?: number
  readonly maxInFlight?: number
  readonly unsigned?: { readonly perSecond: number; readonly perAddress: number }
  readonly needsHeartbeats?: boolean
  readonly tiers?: readonly TierName[]
  /** Source of the random cache lifetimes; 0 gives the longest. */
  readonly random?: () => number
  /** A circuit breaker round each tier; without it there is none. */
  readonly breaker?: CircuitSettings
  /** For tests that create hundreds of worlds. */
  readonly metrics?: Metrics
}

/** A gateway's key store over doubles of Redis and key service, with its own clock. */
export class KeyStoreWorld {
  readonly clock = new ManualClock()
  readonly metrics: Metrics
  /** Versions of the records that exist. */
  readonly inRedis = new Map<string, number>()
  readonly inKeyService = new Map<string, number>()
  readonly redis = new ChaosTier('redis', digest => foundIn(this.inRedis, digest) ?? { kind: 'miss' })
  readonly keyService = new ChaosTier(
    'key_service',
    digest => foundIn(this.inKeyService, digest) ?? { kind: 'absent' },
  )
  /** One for each tier, if there are any. */
  readonly breakers: BreakingTier[] = []
  readonly invalidations: InvalidationListener
  readonly memory: MemoryStore
  readonly keys: LookupChain
  #sentMs = 0

  constructor(options: WorldOptions = {}) {
    this.metrics = options.metrics ?? createMetrics()
    const { clock, metrics } = this
    const { ttlMs = 30_000, absentTtlMs = 5_000, maxEntries = 1_000 } = options
    const tiers = options.tiers ?? ['redis', 'key_service']
    this.invalidations = new InvalidationListener({
      clock,
      metrics,
      needsHeartbeats: options.needsHeartbeats ?? true,
      messageKeys: () => [MESSAGE_KEY],
    })
    this.memory = new MemoryStore(maxEntries, { metrics, random: options.random ?? (() => 0) })
    this.keys = new LookupChain({
      memory: this.memory,
      invalidations: this.invalidations,
      redis: tiers.includes('redis') ? this.#dress(this.redis, options.breaker) : null,
      keyService: tiers.includes('key_service') ? this.#dress(this.keyService, options.breaker) : null,
      clock,
      metrics,
      limits: { ttlMs, absentTtlMs, staleMs: options.staleMs ?? 300_000 },
      unsignedBudget: new UnsignedLookupBudget(options.unsigned ?? { perSecond: 1_000, perAddress: 1_000 }),
      ...(options.maxInFlight === undefined ? {} : { maxInFlight: options.maxInFlight }),
    })
  }

  #dress(tier: ChaosTier, settings?: CircuitSettings): KeyTier {
    const failures = new FailureLog(`${tier.name} lookup`, new LogSpy(), this.clock)
    if (settings === undefined) return withObservation(tier, this.metrics, failures)
    const breaker = withBreaker(tier, settings, this.clock)
    this.breakers.push(breaker)
    return withObservation(breaker, this.metrics, failures)
  }

  heartbeat(delayMs = 0): void {
    // Several heartbeats at the same instant must differ from each other.
    this.#sentMs = Math.max(this.#sentMs + 1, this.clock.monotonicMs() - delayMs)
    const atMs = this.clock.wallMs() - delayMs
    this.invalidations.receive(heartbeatMessage({ monotonicMs: this.#sentMs, atMs }))
  }

  announce(digest: string, version: number, delayMs = 0): void {
    this.invalidations.receive(changeMessage({ digest, version, atMs: this.clock.wallMs() - delayMs }))
  }

  /** A change without a MAC: every client with the right to publish in Redis can write it. */
  forge(digest: string, version: number): void {
    this.invalidations.receive(changeMessage({ digest, version, atMs: this.clock.wallMs() }, null))
  }

  connect(): void {
    this.invalidations.subscribed()
    this.heartbeat()
  }

  /** Advances the clock while the console keeps sending heartbeats. */
  advanceConnected(ms: number): void {
    for (let passed = 0; passed < ms; passed += 500) {
      this.clock.advance(Math.min(500, ms - passed))
      this.heartbeat()
    }
  }

  /** @param unsignedFrom address of the client, for a key without a MAC */
  async get(digest: string, unsignedFrom: string | null = null): Promise<Lookup> {
    return await this.keys.get(digest, unsignedFrom)
  }

  allFail(): void {
    this.redis.fails()
    this.keyService.fails()
  }

  allAnswer(): void {
    this.redis.answers()
    this.keyService.answers()
  }
}

function foundIn(versions: Map<string, number>, digest: string): TierResult | null {
  const version = versions.get(digest)
  return version === undefined ? null : { kind: 'found', grant: grantOf({ version }) }
}
