import { type KeyObject, randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { narrowReload, type OnReload, type PrepareReload, reloadable } from '../config/reloadable.ts'
import type { Config } from '../config/schema/schema.ts'
import type { Clock } from '../domain/clock.ts'
import { deriveMessageKey } from '../domain/invalidation-message.ts'
import { findRedisTopology } from '../domain/redis-address.ts'
import { REVOCATION_TIMING } from '../domain/revocation-timing.ts'
import { deriveRecordKey } from '../domain/wire.ts'
import { FailureLog, type Log } from '../observability/failure-log.ts'
import { LOOKUP_RESULTS, LOOKUP_TIERS, type Metrics } from '../observability/metrics/metrics.ts'
import { InvalidationListener } from './invalidation/invalidation-listener.ts'
import { LookupChain } from './lookup-chain.ts'
import { RedisAccess } from './redis-access.ts'
import { ChangeConfirmer, type DrainOutcome } from './reports/change-confirmer.ts'
import {
  RegionCheck,
  type SecretsMatch,
  SettingsAgreement,
  SigningSecretsCheck,
  TokenCheck,
} from './reports/settings-checks.ts'
import { KeyServiceClient } from './tiers/key-service-client.ts'
import { KeyServiceStore } from './tiers/key-service-store.ts'
import type { KeyStore, KeyTier } from './tiers/key-store.ts'
import { MemoryStore } from './tiers/memory-store.ts'
import { type BreakingTier, withBreaker, withObservation } from './tiers/resilience.ts'
import type { TrustLimits } from './tiers/trust.ts'
import { UnsignedLookupBudget } from './unsigned-lookup-budget.ts'
import type { NotedLimits, UsageRequest } from './usage/usage-counts.ts'
import { createGatewayUsage, type GatewayUsage } from './usage/usage-reporter.ts'

type KeyStoreConfig = Pick<
  Config,
  'redis' | 'region' | 'keyService' | 'keys' | 'usage' | 'refusals' | 'outgoing'
>

export interface KeyStoreSettings {
  readonly config: KeyStoreConfig
  readonly metrics: Metrics
  readonly logger: Log
  readonly clock: Clock
  readonly onReload: OnReload<KeyStoreConfig>
  /** Windows of rate limits to report. */
  readonly nearLimits?: NotedLimits
  /** Receives the number of gateways that the key service knows, with each report. */
  readonly onGatewayCount?: (count: number) => void
}

interface KeyStoreHealth {
  /** `failed`: it answers with errors. */
  readonly redis: 'ok' | 'down' | 'failed' | 'off'
  readonly changes: 'connected' | 'disconnected'
  /** `down`: its circuit is open, and lookups skip it. `rejected`: it rejects the token. */
  readonly keyService: 'on' | 'down' | 'rejected' | 'off'
}

/** The parts of a gateway that look keys up. */
export interface RunningKeyStore {
  readonly keyStore: KeyStore
  /** For the console in the same process; if Redis is configured, all messages come from Redis. */
  readonly invalidations: InvalidationListener
  /** Settles once the key service knows that this gateway is connected; null if no key service is configured. */
  readonly introduced: Promise<void> | null
  /** Counts a request that has ended, for the next report. */
  recordUsage(request: UsageRequest, status: number, aborted: boolean): void
  /** Reports to the key service at once. Settles when that was answered, or was not in time; at once without one. */
  tryKeyService(): Promise<void>
  /** Whether this gateway verifies the keys that the key service signs; `off` without one. */
  secretsMatch(): SecretsMatch
  /** Whether the settings of this gateway and those of the key service contradict each other, and always have. */
  isMisconfigured(): boolean
  /** Starts connecting. Never waits or fails, also if a dependency is down. */
  start(): void
  /** Sends the last reports, within `keyService.timeoutMs`. */
  stop(drain?: DrainOutcome): Promise<void>
  health(): KeyStoreHealth
}

/** Signing off from the console takes no longer than this. */
const SIGN_OFF_MS = 500
/** Longer names are cut; the name of a pod has at most 253 characters. */
const MAX_NAME_LENGTH = 253

export function createKeyStore(deps: KeyStoreSettings): RunningKeyStore {
  const { config, metrics, clock } = deps
  const { region } = config
  const verifying = reloadable(config, deps.onReload, ({ keys }) => deriveVerifyingKeys(keys))
  const messageKeys = () => verifying.value.messages
  const needsHeartbeats = config.redis.heartbeats
  const invalidations = new InvalidationListener({ clock, metrics, needsHeartbeats, region, messageKeys })
  const redis = createRedis(deps, invalidations, () => verifying.value.records)
  const keyService = createKeyService(deps, invalidations)
  const redisTier = redis && withBreaker(redis.tier, config.redis.circuit, clock)
  const keyServiceTier = keyService && withBreaker(keyService.tier, config.keyService.circuit, clock)
  const breakers = [redisTier, keyServiceTier].filter(tier => tier !== null)
  const keyStore = new LookupChain({
    memory: new MemoryStore(config.keys.memory.maxEntries, { metrics }),
    invalidations,
    redis: redisTier && observed(redisTier, deps),
    keyService: keyServiceTier && observed(keyServiceTier, deps),
    clock,
    metrics,
    limits: readTrustLimits(config.keys),
    unsignedBudget: new UnsignedLookupBudget(config.keys.unsignedLookups),
  })
  deps.onReload(forgetKeysOfRemovedSecrets(config.keys, keyStore))
  invalidations.onApplied((digest, version) => keyService?.confirmer.applied(digest, version))
  prepareMetrics(metrics, breakers)
  let watch: NodeJS.Timeout | undefined

  /** Updates gauges and reopens a silent subscription, also while no request arrives. */
  function watchConnections(): void {
    keyService?.confirmer.watch(invalidations.isConnected())
    redis?.watch()
    for (const breaker of breakers) breaker.watch()
    metrics.redisUp.set(redis?.isUp === true ? 1 : 0)
  }
  return {
    keyStore,
    invalidations,
    introduced: keyService?.confirmer.introduced ?? null,
    tryKeyService: () => tryOnce(keyService, invalidations.isConnected()),
    secretsMatch: () => keyService?.secretsCheck.state ?? 'off',
    isMisconfigured: () => keyService?.agreement.isMisconfigured ?? false,
    recordUsage: (request, status, aborted) => keyService?.usage?.counts.record(request, status, aborted),
    start() {
      redis?.start()
      keyService?.usage?.reporter.start()
      watch ??= setInterval(watchConnections, REVOCATION_TIMING.watchIntervalMs).unref()
    },
    async stop(drain) {
      clearInterval(watch)
      redis?.stop()
      if (keyService !== null) await signOff(keyService, drain)
    },
    health: () => ({
      redis: redisHealth(redis, redisTier),
      changes: invalidations.isConnected() ? 'connected' : 'disconnected',
      keyService: keyServiceHealth(keyService, keyServiceTier),
    }),
  }
}

function redisHealth(redis: RedisAccess | null, tier: BreakingTier | null): KeyStoreHealth['redis'] {
  if (redis === null) return 'off'
  if (redis.isFailing) return 'failed'
  return redis.isUp && tier?.isOpen === false ? 'ok' : 'down'
}

async function tryOnce(keyService: KeyServiceSide | null, isConnected: boolean): Promise<void> {
  keyService?.confirmer.watch(isConnected)
  await keyService?.confirmer.attempted
}

function keyServiceHealth(
  keyService: KeyServiceSide | null,
  tier: BreakingTier | null,
): KeyStoreHealth['keyService'] {
  if (keyService === null) return 'off'
  if (keyService.tokenCheck.state === 'rejected') return 'rejected'
  return tier?.isOpen === true ? 'down' : 'on'
}

/** One of these must have made the MAC of a record or message; null if no MAC is required. */
interface VerifyingKeys {
  readonly records: readonly KeyObject[] | null
  readonly messages: readonly KeyObject[] | null
}

/** @returns nulls only if keys are opaque and no signing secret is set */
export function deriveVerifyingKeys({
  format,
  signingSecrets,
}: Pick<Config['keys'], 'format' | 'signingSecrets'>): VerifyingKeys {
  if (format === 'opaque' && signingSecrets.length === 0) return { records: null, messages: null }
  const secrets = signingSecrets.map(secret => Buffer.from(secret, 'base64'))
  return { records: secrets.map(deriveRecordKey), messages: secrets.map(deriveMessageKey) }
}

/** Memory vouches for the MACs of its keys: it is emptied when a signing secret is no longer in use. */
function forgetKeysOfRemovedSecrets(
  { signingSecrets }: Pick<Config['keys'], 'signingSecrets'>,
  keyStore: LookupChain,
): PrepareReload<KeyStoreConfig> {
  let inUse = signingSecrets
  return ({ keys }) =>
    () => {
      if (inUse.some(secret => !keys.signingSecrets.includes(secret))) keyStore.forgetAll()
      inUse = keys.signingSecrets
    }
}

function createRedis(
  deps: KeyStoreSettings,
  invalidations: InvalidationListener,
  recordKeys: () => VerifyingKeys['records'],
): RedisAccess | null {
  const { config, onReload } = deps
  const { redis } = config
  if (findRedisTopology(redis) === null) return null
  return new RedisAccess({
    ...deps,
    settings: redis,
    recordKeys,
    invalidations,
    onReload: narrowReload(onReload, next => next.redis),
  })
}

interface KeyServiceSide {
  readonly client: KeyServiceClient
  readonly tier: KeyServiceStore
  /** Null if usage is not reported. */
  readonly usage: GatewayUsage | null
  readonly confirmer: ChangeConfirmer
  readonly secretsCheck: SigningSecretsCheck
  readonly tokenCheck: TokenCheck
  readonly agreement: SettingsAgreement
}

function createKeyService(
  deps: KeyStoreSettings,
  invalidations: InvalidationListener,
): KeyServiceSide | null {
  const { config, logger, metrics, clock, onReload } = deps
  const { keyService } = config
  const { url, timeoutMs } = keyService
  if (url === undefined) return null
  const tokenCheck = new TokenCheck({ log: logger, metrics })
  const client = new KeyServiceClient(
    { ...keyService, url, region: config.region },
    narrowReload(onReload, next => ({ ...next.keyService, url })),
    status => tokenCheck.observe(status),
  )
  const gateway = {
    id: randomUUID(),
    name: hostname().slice(0, MAX_NAME_LENGTH),
    ...(config.region === undefined ? {} : { region: config.region }),
  }
  const usage = createGatewayUsage(deps, client, `${gateway.name}:${gateway.id}`)
  const onKeysReload = narrowReload(onReload, ({ keys }) => keys)
  const secretsCheck = new SigningSecretsCheck(config.keys, { log: logger, metrics }, onKeysReload)
  const regionCheck = new RegionCheck(config.region, logger)
  const agreement = new SettingsAgreement(
    () => secretsCheck.state === 'mismatch' || tokenCheck.state === 'rejected' || regionCheck.isUnknown,
  )
  const confirmer = new ChangeConfirmer({
    client,
    clock,
    failures: new FailureLog('change confirmation', logger, clock),
    gateway,
    timeoutMs,
    onAccepted: ({ fingerprints, gateways, atMs, regions }) => {
      secretsCheck.observe(fingerprints)
      regionCheck.observe(regions)
      agreement.note()
      if (atMs !== null) invalidations.learnClock(atMs)
      if (gateways !== null) deps.onGatewayCount?.(gateways)
    },
  })
  // Without an answer nothing contradicts: then this gateway starts with what Redis holds.
  void confirmer.attempted.then(() => agreement.note())
  const tier = new KeyServiceStore(client, { timeoutMs, clock })
  return { client, tier, usage, confirmer, secretsCheck, tokenCheck, agreement }
}

/** Sends the last reports, then closes the connections. */
async function signOff({ client, usage, confirmer }: KeyServiceSide, drain?: DrainOutcome): Promise<void> {
  await Promise.all([usage?.reporter.stop(), confirmer.stop(AbortSignal.timeout(SIGN_OFF_MS), drain)])
  await client.stop()
}

function observed(tier: KeyTier, { metrics, logger, clock }: KeyStoreSettings): KeyTier {
  const failures = new FailureLog(`${tier.name.replace('_', ' ')} lookup`, logger, clock)
  return withObservation(tier, metrics, failures)
}

function readTrustLimits({ memory, staleSeconds }: Config['keys']): TrustLimits {
  const { ttlSeconds, absentTtlSeconds } = memory
  return { ttlMs: ttlSeconds * 1000, absentTtlMs: absentTtlSeconds * 1000, staleMs: staleSeconds * 1000 }
}

/** Lookups start at zero, also of stores that are not configured. */
function prepareMetrics({ lookups, storeCircuitOpen }: Metrics, breakers: readonly BreakingTier[]): void {
  for (const tier of LOOKUP_TIERS) for (const result of LOOKUP_RESULTS) lookups.inc({ tier, result }, 0)
  storeCircuitOpen.onCollect(gauge => {
    for (const { name: tier, isOpen } of breakers) gauge.set({ tier }, isOpen ? 1 : 0)
  })
}
