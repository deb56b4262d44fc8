import { authorize } from '../../../src/domain/authorize.ts'
import { denialRow } from '../../../src/domain/denial.ts'
import type { Lookup } from '../../../src/domain/key/key-record.ts'
import { DEFAULT_REGION } from '../../../src/domain/region.ts'
import { REVOCATION_TIMING } from '../../../src/domain/revocation-timing.ts'
import { compileRoutes, matchRoute } from '../../../src/domain/route/route.ts'
import { InvalidationListener } from '../../../src/keys/invalidation/invalidation-listener.ts'
import { LookupChain } from '../../../src/keys/lookup-chain.ts'
import { RedisAccess } from '../../../src/keys/redis-access.ts'
import { ChangeConfirmer } from '../../../src/keys/reports/change-confirmer.ts'
import type { KeyServiceClient } from '../../../src/keys/tiers/key-service-client.ts'
import { KeyServiceStore } from '../../../src/keys/tiers/key-service-store.ts'
import type { KeyTier } from '../../../src/keys/tiers/key-store.ts'
import { MemoryStore } from '../../../src/keys/tiers/memory-store.ts'
import { withBreaker } from '../../../src/keys/tiers/resilience.ts'
import { UnsignedLookupBudget } from '../../../src/keys/unsigned-lookup-budget.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import type { Answer, ClientRequest } from '../oracle.ts'
import { Process } from './process.ts'
import { redisNetworkOf } from './redis-sites.ts'
import { CONFIG, CONSOLE_SECRETS, NO_LOG, NO_METRICS, nameOfRegion, redisSettings } from './settings.ts'
import type { World } from './world.ts'

/** More than a world has. */
const MAX_KEYS = 32
/** Every simulated key has a MAC. */
const UNUSED_BUDGET = new UnsignedLookupBudget(CONFIG.keys.unsignedLookups)

const MESSAGE_KEYS = [CONSOLE_SECRETS.messageKey]

const ROUTES = compileRoutes([
  { name: 'auth', path: '/auth' },
  { name: 'files', path: '/workspaces/{workspaceId}/files', scope: 'files:read' },
  { name: 'workspace', path: '/workspaces/{workspaceId}', scope: 'workspace:read' },
])

export const nameOfGateway = (index: number): string => `gateway-${index}`

/** One run of a gateway: everything that decides whether a key is accepted, as `createKeyStore` puts it together. */
export interface GatewayRun {
  readonly process: Process
  /** As the console knows it. */
  readonly id: string
  readonly chain: LookupChain
  readonly index: number
  readonly region: number
  readonly startedAtMs: number
  isConnected(): boolean
  /** When the key service first said what time it is; infinite until then, and recorded heartbeats may count. */
  readonly clockKnownAtMs: number
  /** When the key service last failed to answer a lookup, or was skipped. */
  readonly keyServiceFailedAtMs: number
  end(): void
}

/** A request of a client: what the oracle sees of it, and the path that the gateway sees. */
export interface Sent extends ClientRequest {
  readonly path: string
}

/** What the client of this request sees, by the real `authorize`. */
export function respond(lookup: Lookup, { path, address }: Sent, nowMs: number): Answer {
  const match = matchRoute(ROUTES, path)
  if (match === null) throw new Error(`No route matches ${path}`)
  const verdict = authorize({ lookup, match, query: '', nowMs, clientAddress: address })
  if (verdict.kind === 'permitted') return 'permitted'
  // The codes that this order of checks can give are those of docs/concepts.md; another one is no answer that the oracle explains.
  return denialRow(verdict.reason).code as Answer
}

export function startGateway(world: World, index: number, run: number): GatewayRun {
  const region = world.regionOf(index)
  const name = nameOfGateway(index)
  const process = new Process(name, world.scheduler, world.random)
  const { clock, timers } = process
  const id = `${name}-${run}`
  const listener = new InvalidationListener({
    clock,
    metrics: NO_METRICS,
    needsHeartbeats: true,
    region: world.settings.distancesMs.length > 1 ? nameOfRegion(region) : DEFAULT_REGION,
    messageKeys: () => MESSAGE_KEYS,
    maxAnnounced: world.settings.floors,
  })
  const redis = new RedisAccess({
    settings: redisSettings(region, world.settings.isWatched),
    recordKeys: () => CONSOLE_SECRETS.recordKeys,
    onReload: () => {},
    invalidations: listener,
    ...{ clock, timers, metrics: NO_METRICS, logger: NO_LOG },
    network: redisNetworkOf(process, world.sites),
  })
  const client = { request: world.keyService.clientOf(process) } satisfies Pick<KeyServiceClient, 'request'>
  // As `docs/operate/regions.md` says: the long way takes several round trips.
  const timeoutMs = CONFIG.keyService.timeoutMs * (world.settings.distancesMs.length > 1 ? 2 : 1)
  const redisTier = withBreaker(redis.tier, CONFIG.redis.circuit, clock)
  const keyServiceTier = withBreaker(
    new KeyServiceStore(client, { timeoutMs, clock, timers }),
    CONFIG.keyService.circuit,
    clock,
  )
  let keyServiceFailedAtMs = Number.NEGATIVE_INFINITY
  const chain = new LookupChain({
    memory: new MemoryStore(MAX_KEYS, {
      metrics: NO_METRICS,
      random: () => world.random.next(),
      maxAbsent: MAX_KEYS,
    }),
    invalidations: listener,
    redis: redisTier,
    keyService: noting(keyServiceTier, () => {
      keyServiceFailedAtMs = world.scheduler.nowMs
    }),
    ...{ clock, metrics: NO_METRICS },
    limits: world.limits,
    unsignedBudget: UNUSED_BUDGET,
  })
  let clockKnownAtMs = Number.POSITIVE_INFINITY
  const failures = new FailureLog('change confirmation', NO_LOG, clock)
  const confirmer = new ChangeConfirmer({
    ...{ client, clock, timers, failures, timeoutMs },
    gateway: { id, name, region: nameOfRegion(region) },
    maxWaiting: MAX_KEYS,
    onAccepted: ({ atMs }) => {
      if (atMs === null) return
      listener.learnClock(atMs)
      clockKnownAtMs = Math.min(clockKnownAtMs, world.nowMs)
    },
  })
  listener.onApplied((digest, version) => {
    world.laws.applied(id, digest, version)
    confirmer.applied(digest, version)
  })
  redis.start()
  timers.every(REVOCATION_TIMING.watchIntervalMs, () => {
    confirmer.watch(listener.isConnected())
    redis.watch()
    redisTier.watch()
    keyServiceTier.watch()
  })
  return {
    process,
    id,
    chain,
    index,
    region,
    startedAtMs: world.nowMs,
    isConnected: () => listener.isConnected(),
    get clockKnownAtMs() {
      return clockKnownAtMs
    },
    get keyServiceFailedAtMs() {
      return keyServiceFailedAtMs
    },
    end: () => process.end(),
  }
}

function noting(tier: KeyTier, onFailed: () => void): KeyTier {
  return {
    name: tier.name,
    async get(digest) {
      const result = await tier.get(digest)
      if (result.kind === 'failed') onFailed()
      return result
    },
  }
}
