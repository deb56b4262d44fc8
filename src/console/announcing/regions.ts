import { narrowReload, type OnReload } from '../../config/reloadable.ts'
import type { Config, RegionSettings } from '../../config/schema/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import type { StoredKey } from '../../domain/key/key-record.ts'
import { findRedisTopology } from '../../domain/redis-address.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { createRedisConnection } from '../../redis/announcing-connection.ts'
import type { RedisNetwork } from '../../redis/clients.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import type { ConsoleSecrets } from '../platform/console-secrets.ts'
import type { Timers } from '../platform/jobs/timers.ts'
import { type Announcer, createDisabledAnnouncer, createRedisAnnouncer } from './announcer.ts'
import { RoundTrip, startHeartbeats } from './heartbeats.ts'
import { Outbox } from './outbox.ts'
import type { PendingChange, PendingChanges } from './outbox-rows.ts'
import type { AnnouncedKeys, AnnouncingRepository } from './repository.ts'
import type { MessageEncoder } from './signed-texts.ts'

/** Several times within the time after which a region is forgotten. */
const REGISTER_PERIOD_MS = 60_000

/** What a console needs to announce to one region. */
export interface Region {
  readonly name: string
  readonly announcer: Announcer
  readonly outbox: Outbox
  /** What waits for this region, and the keys that it is about. */
  readonly repository: PendingChanges & AnnouncedKeys
  readonly messages: MessageEncoder
  readonly logger: ControlLogger
  /** Null in an installation without regions: its Redis is near. */
  readonly roundTrip: RoundTrip | null
}

/** All regions that this console announces to; one, if its settings name none. */
export interface Regions {
  readonly list: readonly Region[]
  readonly outboxes: RegionOutboxes
  /** Whether the settings name regions. */
  readonly areNamed: boolean
  /**
   * Writes records that Redis lacks, without delaying the response.
   * @param region of the gateway that lacked them; without one, or for one of another name, they are written in every region
   */
  refill(keys: readonly StoredKey[], region?: string | null): void
  /** States that this console announces to these regions; before it commits its first change. */
  register(): Promise<void>
  start(): void
  stop(): Promise<void>
}

export function createRegions(context: ConsoleContext, shared: RegionParts): Regions {
  const { config, timers, logger } = context
  const { announcing } = shared
  const areNamed = config.regions.length > 0
  const up = new Set<string>()
  const list = areNamed
    ? config.regions.map((settings, index) => openRegion({ ...context, up }, settings, index, shared))
    : [openDefaultRegion(context, shared)]
  const names = list.map(({ name }) => name)
  const refills = new Map(list.map(({ name, announcer, logger }) => [name, createRefill(announcer, logger)]))
  const register = () => announcing.registerRegions(names)
  const registerAgain = async () => {
    await register()
    for (const { outbox } of list) outbox.requestDrainUnlessWaiting()
    for (const region of await announcing.forgetRegions()) logger.warn({ region }, 'region forgotten')
  }
  let stops: readonly (() => void)[] = []
  return {
    list,
    outboxes: new RegionOutboxes(new Map(list.map(({ name, outbox }) => [name, outbox]))),
    areNamed,
    refill(keys, region = null) {
      const own = region === null ? undefined : refills.get(region)
      for (const refill of own === undefined ? refills.values() : [own]) refill(keys)
    },
    register,
    start() {
      const failed = (error: unknown) =>
        logger.warn({ cause: describeError(error) }, 'regions not registered, retrying')
      stops = [
        timers.every(REGISTER_PERIOD_MS, () => void registerAgain().catch(failed)),
        ...list.map(region => startHeartbeats({ ...context, ...region })),
      ]
      for (const { announcer, outbox } of list) {
        announcer.start()
        outbox.requestDrain()
      }
    },
    async stop() {
      for (const stop of stops) stop()
      await Promise.all(list.map(({ outbox }) => outbox.stop()))
      await Promise.all(list.map(({ announcer }) => announcer.stop()))
    },
  }
}

interface RegionParts {
  readonly announcing: AnnouncingRepository
  readonly keys: AnnouncedKeys
  readonly messagesTo: (region: string) => MessageEncoder
  /** Of an installation without regions. Default: the Redis of the settings, or none. */
  readonly announcer?: Announcer | undefined
}

function openDefaultRegion(
  context: ConsoleContext,
  { messagesTo, announcer: given, ...stored }: RegionParts,
): Region {
  const { logger } = context
  const messages = messagesTo(DEFAULT_REGION)
  const repository = repositoryIn(DEFAULT_REGION, stored)
  const announcer = given ?? createConfiguredAnnouncer(context, context.secrets)
  const outbox = new Outbox({ ...context, repository, announcer, messages })
  return { name: DEFAULT_REGION, announcer, outbox, repository, messages, logger, roundTrip: null }
}

function openRegion(
  context: ConsoleContext & { readonly up: Set<string> },
  { name, redis }: RegionSettings,
  index: number,
  { messagesTo, ...stored }: RegionParts,
): Region {
  const messages = messagesTo(name)
  const repository = repositoryIn(name, stored)
  const logger = inRegion(context.logger, name)
  // A reload keeps the regions and their order.
  const onReload = narrowReload(context.onReload, next => next.regions[index]?.redis ?? redis)
  const roundTrip = new RoundTrip()
  const parts = { ...context, logger, onReload, roundTrip }
  const announcer = createRegionAnnouncer({ name, redis }, parts, context.secrets)
  const outbox = new Outbox({ ...context, logger, repository, announcer, messages })
  return { name, announcer, outbox, repository, messages, logger, roundTrip }
}

function repositoryIn(
  region: string,
  { announcing, keys }: Pick<RegionParts, 'announcing' | 'keys'>,
): PendingChanges & AnnouncedKeys {
  const { findByDigest, findByDigests } = keys
  return { ...announcing.pendingIn(region), findByDigest, findByDigests }
}

/** Each line names the region. */
function inRegion(logger: ControlLogger, region: string): ControlLogger {
  const line =
    (level: keyof ControlLogger) =>
    (first: object | string, message?: string): void =>
      typeof first === 'string'
        ? logger[level]({ region }, first)
        : logger[level]({ region, ...first }, message)
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
}

interface AnnouncerParts<Settings> {
  readonly metrics: Metrics
  readonly logger: ControlLogger
  readonly onReload: OnReload<Settings>
  /** Regions whose Redis is connected. */
  readonly up: Set<string>
  readonly roundTrip?: RoundTrip
  readonly timers?: Timers
  readonly clock?: Clock
  readonly redisNetwork?: RedisNetwork
}

interface CurrentSecrets {
  readonly value: ConsoleSecrets
}

/** Announces through the configured Redis; without one, not at all. */
function createConfiguredAnnouncer(
  { config, onReload, ...parts }: Omit<AnnouncerParts<Config>, 'up'> & { readonly config: Config },
  secrets: CurrentSecrets,
): Announcer {
  if (findRedisTopology(config.redis) === null) return createDisabledAnnouncer()
  const redis = { ...parts, up: new Set<string>(), onReload: narrowReload(onReload, next => next.redis) }
  return createRegionAnnouncer({ name: DEFAULT_REGION, redis: config.redis }, redis, secrets)
}

function createRegionAnnouncer(
  { name: region, redis }: RegionSettings,
  {
    metrics,
    logger,
    onReload,
    up,
    roundTrip,
    timers,
    clock,
    redisNetwork,
  }: AnnouncerParts<RegionSettings['redis']>,
  secrets: CurrentSecrets,
): Announcer {
  metrics.regionUp.set({ region }, 0)
  const connection = createRedisConnection({
    config: redis,
    metrics,
    logger,
    onReload,
    onRoundTrip: ms => roundTrip?.observe(ms),
    ...(timers === undefined ? {} : { timers }),
    ...(clock === undefined ? {} : { clock }),
    ...(redisNetwork === undefined ? {} : { network: redisNetwork }),
    onUp(isUp) {
      if (isUp) up.add(region)
      else up.delete(region)
      metrics.regionUp.set({ region }, isUp ? 1 : 0)
      metrics.redisUp.set(up.size > 0 ? 1 : 0)
    },
  })
  const { commandTimeoutMs } = redis
  return createRedisAnnouncer({
    connection,
    commandTimeoutMs,
    get recordKeys() {
      return secrets.value.recordKeys
    },
    metrics,
  })
}

/** Records beyond this are skipped: the next lookup of the same key tries again. */
const MAX_IN_FLIGHT = 4_096

/** Writes records that a gateway had to look up to Redis, without delaying the response. */
function createRefill(announcer: Announcer, logger: ControlLogger): (keys: readonly StoredKey[]) => void {
  let inFlight = 0
  return found => {
    const keys = found.slice(0, MAX_IN_FLIGHT - inFlight)
    if (announcer.state() !== 'ready' || keys.length === 0) return
    inFlight += keys.length
    void announcer.putAll(keys.map(key => ({ key, messages: [] }))).then(results => {
      inFlight -= keys.length
      const failed = results.find(result => result.status === 'rejected')
      if (failed !== undefined) logger.debug({ cause: describeError(failed.reason) }, 'redis refill failed')
    })
  }
}

/** Whether a change was announced to a region. */
interface RegionAnnounced {
  readonly region: string
  readonly announced: boolean
}

/** One for each region, in the order of the settings. */
export type Announced = readonly RegionAnnounced[]

export const isAnnounced = (regions: Announced) => regions.every(({ announced }) => announced)

/** Whether the settings name regions: otherwise there is one, of which nothing is said. */
export const areNamed = (regions: Announced) =>
  regions.length > 1 || regions.some(({ region }) => region !== DEFAULT_REGION)

/** Announced to a region if each was. */
export function combineAnnounced(all: readonly Announced[]): Announced {
  const [first = []] = all
  return first.map(({ region }, index) => ({
    region,
    announced: all.every(regions => regions[index]?.announced === true),
  }))
}

/** The outboxes of all regions: each announces for itself, so that one that is down holds up no other. */
export class RegionOutboxes {
  readonly #outboxes: ReadonlyMap<string, Outbox>

  constructor(outboxes: ReadonlyMap<string, Outbox>) {
    this.#outboxes = outboxes
  }

  /** As `Outbox.announce`: false for a region that has not confirmed within a second. */
  announce(keys: readonly StoredKey[], changes: readonly PendingChange[]): Promise<Announced> {
    return this.#inEach(outbox => outbox.announce(keys, changes))
  }

  announcePending(key: Pick<StoredKey, 'digest'>): Promise<Announced> {
    return this.#inEach(outbox => outbox.announcePending(key))
  }

  hasAnnounced(workspaceId: string, atMs: number, maxWaitMs: number): Promise<Announced> {
    return this.#inEach(outbox => outbox.hasAnnounced(workspaceId, atMs, maxWaitMs))
  }

  async #inEach(announce: (outbox: Outbox) => Promise<boolean>): Promise<Announced> {
    return Promise.all(
      [...this.#outboxes].map(async ([region, outbox]) => ({ region, announced: await announce(outbox) })),
    )
  }
}
