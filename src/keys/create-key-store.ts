import { type KeyObject, randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { neverReloads, type OnReload, onReloadOf, reloadable } from '../config/reloadable.ts'
import type { Config } from '../config/schema.ts'
import { type Clock, systemClock } from '../domain/clock.ts'
import { deriveMessageKey } from '../domain/invalidation-message.ts'
import { redisTopologyOf } from '../domain/redis-topology.ts'
import { deriveRecordKey } from '../domain/wire.ts'
import { LOOKUP_RESULTS, LOOKUP_TIERS, type Metrics } from '../observability/metrics.ts'
import { type Log, TroubleLog } from '../observability/trouble-log.ts'
import { type ChangeEar, Changes } from './invalidation/invalidation-listener.ts'
import type { KeyStore, KeyTier } from './key-store.ts'
import { KeyStoreChain } from './lookup-chain.ts'
import { ChangeConfirmer } from './reports/change-confirmer.ts'
import { UsageReporter } from './reports/usage-reporter.ts'
import { KeyServiceClient } from './tiers/key-service/key-service-client.ts'
import { KeyServiceStore } from './tiers/key-service/key-service-store.ts'
import { MemoryStore } from './tiers/memory/memory-store.ts'
import { RedisSide } from './tiers/redis/redis-side.ts'
import { withBreaker } from './tiers/with-breaker.ts'
import { withMetrics } from './tiers/with-metrics.ts'
import { withTroubleLog } from './tiers/with-trouble-log.ts'

type SettingsOfKeys = Pick<Config, 'redis' | 'keyService' | 'keys'>

export interface KeyStoreSettings {
  readonly config: SettingsOfKeys
  readonly metrics: Metrics
  readonly logger: Log
  readonly clock?: Clock
  /** How settings are heard of that change while it runs. */
  readonly onReload?: OnReload<SettingsOfKeys>
}

export interface KeyStoreHealth {
  readonly redis: 'ok' | 'down' | 'off'
  readonly changes: 'hearing' | 'deaf'
  /** `down`: it did not answer, and is not asked for a while. */
  readonly keyService: 'on' | 'down' | 'off'
}

/** The read side of keys, whole. */
export interface RunningKeyStore {
  readonly keyStore: KeyStore
  /** Where a feed of the same process tells of changes; with Redis configured, Redis alone does. */
  readonly changes: ChangeEar
  /** Settled once the console knows of this gateway that it hears changes; null where there is no console to tell. */
  readonly introduced: Promise<void> | null
  /** To be told of each request that a key was permitted; it only notes. */
  used(keyId: string): void
  /** Waits for nothing, and fails for nothing that is down. */
  start(): void
  /** Reports what is left to report, within `keyService.timeoutMs`, and ends. */
  stop(): Promise<void>
  health(): KeyStoreHealth
}

type Deps = KeyStoreSettings & { readonly clock: Clock; readonly onReload: OnReload<SettingsOfKeys> }

/** How often deafness is noticed where no request notices it. */
const WATCH_EVERY_MS = 250
/** Nobody waits longer to take leave of the console. */
const LEAVE_MS = 500
/** Longer names are cut; a pod's has at most 253 characters. */
const MAX_NAME = 253

export function createKeyStore(settings: KeyStoreSettings): RunningKeyStore {
  const deps: Deps = {
    ...settings,
    clock: settings.clock ?? systemClock,
    onReload: settings.onReload ?? neverReloads,
  }
  const { config, metrics, clock } = deps
  const verifying = reloadable(config, deps.onReload, ({ keys }) => verifyingKeysOf(keys))
  const { beats } = config.redis
  const changes = new Changes({ clock, metrics, beats, messageKeys: () => verifying.value.messages })
  const memory = createMemory(deps)
  const redis = createRedis(deps, changes, () => verifying.value.records)
  const keyService = createKeyService(deps)
  const redisTier = redis && withBreaker(redis.tier, config.redis.circuit, clock)
  const keyServiceTier = keyService && withBreaker(keyService.tier, config.keyService.circuit, clock)
  const breakers = [redisTier, keyServiceTier].filter(tier => tier !== null)
  const keyStore = new KeyStoreChain({
    memory,
    changes,
    redis: redisTier && dress(redisTier, deps),
    keyService: keyServiceTier && dress(keyServiceTier, deps),
    clock,
    metrics,
    staleMs: config.keys.staleSeconds * 1000,
  })
  changes.onApplied((digest, version) => keyService?.confirmer.applied(digest, version))
  startLookupsAtZero(metrics)
  metrics.storeCircuitOpen.onCollect(gauge => {
    for (const { name: tier, isOpen } of breakers) gauge.set({ tier }, isOpen ? 1 : 0)
  })
  let watch: NodeJS.Timeout | undefined

  /** Also where no request comes, the gauges tell the truth and a silent subscription is made again. */
  function notice(): void {
    const hearing = changes.isHearing()
    keyService?.confirmer.watch(hearing)
    redis?.watch()
    for (const breaker of breakers) breaker.watch()
    metrics.redisUp.set(redis?.isUp === true ? 1 : 0)
  }

  return {
    keyStore,
    changes,
    introduced: keyService?.confirmer.introduced ?? null,
    used: keyId => keyService?.usage?.used(keyId),
    start() {
      redis?.start()
      keyService?.usage?.start()
      watch ??= setInterval(notice, WATCH_EVERY_MS).unref()
    },
    async stop() {
      clearInterval(watch)
      redis?.stop()
      await Promise.all([
        keyService?.usage?.stop(),
        keyService?.confirmer.stop(AbortSignal.timeout(LEAVE_MS)),
      ])
      await keyService?.client.stop()
    },
    health: () => ({
      redis: redis === null ? 'off' : redis.isUp && redisTier?.isOpen === false ? 'ok' : 'down',
      changes: changes.isHearing() ? 'hearing' : 'deaf',
      keyService: keyServiceTier === null ? 'off' : keyServiceTier.isOpen ? 'down' : 'on',
    }),
  }
}

/** Keys of which one must have made the MAC of a record or message. Null lets it pass without one. */
export interface VerifyingKeys {
  readonly records: readonly KeyObject[] | null
  readonly messages: readonly KeyObject[] | null
}

/** Null only where keys are opaque and no signing secret is set. */
export function verifyingKeysOf({
  format,
  signingSecrets,
}: Pick<Config['keys'], 'format' | 'signingSecrets'>): VerifyingKeys {
  if (format === 'opaque' && signingSecrets.length === 0) return { records: null, messages: null }
  const secrets = signingSecrets.map(secret => Buffer.from(secret, 'base64'))
  return { records: secrets.map(deriveRecordKey), messages: secrets.map(deriveMessageKey) }
}

function createMemory({ config, metrics }: Deps): MemoryStore {
  const { maxEntries, ttlSeconds, absentTtlSeconds } = config.keys.memory
  const settings = { maxEntries, ttlMs: ttlSeconds * 1000, absentTtlMs: absentTtlSeconds * 1000 }
  return new MemoryStore(settings, { metrics })
}

function createRedis(
  deps: Deps,
  changes: Changes,
  recordKeys: () => VerifyingKeys['records'],
): RedisSide | null {
  const { config, onReload } = deps
  const { redis } = config
  if (redisTopologyOf(redis) === null) return null
  return new RedisSide({
    ...deps,
    settings: redis,
    recordKeys,
    changes,
    onReload: onReloadOf(onReload, next => next.redis),
  })
}

interface KeyServiceSide {
  readonly client: KeyServiceClient
  readonly tier: KeyServiceStore
  /** Null where usage is not reported. */
  readonly usage: UsageReporter | null
  readonly confirmer: ChangeConfirmer
}

function createKeyService({ config, logger, clock, onReload }: Deps): KeyServiceSide | null {
  const { keyService, keys } = config
  const { url, timeoutMs } = keyService
  if (url === undefined) return null
  const client = new KeyServiceClient(
    { ...keyService, url },
    onReloadOf(onReload, next => ({ ...next.keyService, url })),
  )
  const trouble = new TroubleLog('usage report', logger, clock)
  const periodMs = keys.usageSeconds * 1000
  const usage = periodMs === 0 ? null : new UsageReporter({ client, clock, trouble, periodMs, timeoutMs })
  const confirmer = new ChangeConfirmer({
    client,
    clock,
    trouble: new TroubleLog('confirmation of changes', logger, clock),
    gateway: { id: randomUUID(), name: hostname().slice(0, MAX_NAME) },
    timeoutMs,
  })
  return { client, tier: new KeyServiceStore(client, { timeoutMs, clock }), usage, confirmer }
}

function dress(tier: KeyTier, { metrics, logger, clock }: Deps): KeyTier {
  const trouble = new TroubleLog(`${tier.name.replace('_', ' ')} look-up`, logger, clock)
  return withTroubleLog(withMetrics(tier, metrics), trouble)
}

/** Of tiers that are not there, too. */
function startLookupsAtZero({ lookups }: Metrics): void {
  for (const tier of LOOKUP_TIERS) for (const result of LOOKUP_RESULTS) lookups.inc({ tier, result }, 0)
}
