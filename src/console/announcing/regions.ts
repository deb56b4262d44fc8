import { narrowReload, type OnReload } from '../../config/reloadable.ts'
import type { RegionSettings } from '../../config/schema/schema.ts'
import type { StoredKey } from '../../domain/key/key-record.ts'
import { findRedisTopology } from '../../domain/redis-address.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import { createRedisConnection } from '../../redis/announcing-connection.ts'
import type { ConsoleContext } from '../platform/capability.ts'
import { keepUp } from '../platform/jobs/timers.ts'
import {
  type Announcer,
  createDisabledAnnouncer,
  createMessageEncoder,
  createRedisAnnouncer,
  type MessageEncoder,
} from './announcer.ts'
import { RoundTrip, startHeartbeats } from './heartbeats.ts'
import { type AnnouncedKeys, Outbox } from './outbox.ts'
import type { PendingChanges } from './outbox-rows.ts'
import type { RegionRows } from './region-rows.ts'

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
export type Regions = ReturnType<typeof createRegions>

interface RegionParts {
  readonly regionRows: RegionRows
  readonly keys: AnnouncedKeys
  /** Of an installation without regions. Default: the Redis of the settings, or none. */
  readonly announcer?: Announcer | undefined
}

export function createRegions(context: ConsoleContext, parts: RegionParts) {
  const { config, logger } = context
  const { regionRows } = parts
  const up = new Set<string>()
  const list = listSources(context).map(source => openRegion({ ...context, up }, source, parts))
  const names = list.map(({ name }) => name)
  const refills = new Map(
    list.map(({ name, announcer, outbox, logger }) => [name, createRefill(announcer, outbox, logger)]),
  )
  const register = () => regionRows.registerRegions(names)
  const registerAgain = async () => {
    await register()
    for (const { outbox, logger } of list) {
      outbox.requestDrainUnlessWaiting()
      // A region that does not answer holds up no other, and its mark is noted once its Redis is back.
      void outbox
        .keepMark()
        .catch((error: unknown) => logger.debug({ cause: describeError(error) }, 'mark not kept'))
    }
    for (const region of await regionRows.forgetRegions()) logger.warn({ region }, 'region forgotten')
  }
  let stops: readonly (() => void)[] = []
  return {
    list,
    inEach: createInEachRegion(list),
    /** Whether the settings name regions. */
    areNamed: config.regions.length > 0,
    /**
     * Writes records that Redis lacks, without delaying the response.
     * @param region of the gateway that lacked them; without one, or for one of another name, they are written in every region
     */
    refill(keys: readonly StoredKey[], region: string | null = null): void {
      const own = region === null ? undefined : refills.get(region)
      for (const refill of own === undefined ? refills.values() : [own]) refill(keys)
    },
    /** States that this console announces to these regions; before it commits its first change. */
    register,
    start(): void {
      const failure = 'regions not registered, retrying'
      stops = [
        keepUp(context, { everyMs: REGISTER_PERIOD_MS, work: registerAgain, failure }),
        ...list.map(region => startHeartbeats({ ...context, ...region })),
      ]
      for (const { announcer, outbox } of list) {
        announcer.start()
        outbox.requestDrain()
      }
    },
    async stop(): Promise<void> {
      for (const stop of stops) stop()
      await Promise.all(list.map(({ outbox }) => outbox.stop()))
      await Promise.all(list.map(({ announcer }) => announcer.stop()))
    },
  }
}

/** A region as the settings have it. */
interface RegionSource extends RegionSettings {
  /** False for the only region of an installation without any in its settings: nothing is said of it. */
  readonly isNamed: boolean
  readonly onReload: OnReload<RegionSettings['redis']>
}

function listSources({ config, onReload }: ConsoleContext): readonly RegionSource[] {
  if (config.regions.length === 0) {
    const { redis } = config
    return [
      { name: DEFAULT_REGION, redis, isNamed: false, onReload: narrowReload(onReload, next => next.redis) },
    ]
  }
  return config.regions.map(({ name, redis }, index) => ({
    name,
    redis,
    isNamed: true,
    // A reload keeps the regions and their order.
    onReload: narrowReload(onReload, next => next.regions[index]?.redis ?? redis),
  }))
}

interface RegionContext extends ConsoleContext {
  /** Regions whose Redis is connected. */
  readonly up: Set<string>
}

function openRegion(
  context: RegionContext,
  source: RegionSource,
  { regionRows, keys, announcer: given }: RegionParts,
): Region {
  const { consoleId: sender, clock, secrets } = context
  const { name, isNamed } = source
  const logger = isNamed ? inRegion(context.logger, name) : context.logger
  const roundTrip = isNamed ? new RoundTrip() : null
  const messageKey = () => secrets.value.messageKey
  const messages = createMessageEncoder({ sender, region: name, clock, messageKey })
  const repository = { ...regionRows.pendingIn(name), findByDigests: keys.findByDigests }
  const announcer =
    (isNamed ? undefined : given) ??
    createAnnouncer({ ...context, logger, roundTrip }, source, repository.outrank)
  const outbox = new Outbox({ ...context, logger, repository, announcer, messages, roundTrip })
  return { name, announcer, outbox, repository, messages, logger, roundTrip }
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

/** Announces through the Redis of the region; without one, not at all. */
function createAnnouncer(
  context: RegionContext & Pick<Region, 'roundTrip'>,
  { name: region, redis, onReload }: RegionSource,
  outrank: PendingChanges['outrank'],
): Announcer {
  if (findRedisTopology(redis) === null) return createDisabledAnnouncer()
  const { metrics, secrets, redisNetwork, roundTrip, up } = context
  metrics.regionUp.set({ region }, 0)
  const connection = createRedisConnection({
    ...context,
    config: redis,
    onReload,
    onRoundTrip: ms => roundTrip?.observe(ms),
    ...(redisNetwork === undefined ? {} : { network: redisNetwork }),
    onUp(isUp) {
      if (isUp) up.add(region)
      else up.delete(region)
      metrics.regionUp.set({ region }, isUp ? 1 : 0)
      metrics.redisUp.set(up.size > 0 ? 1 : 0)
    },
  })
  return createRedisAnnouncer({
    connection,
    region,
    outrank,
    get recordKeys() {
      return secrets.value.recordKeys
    },
  })
}

/** Records beyond this are skipped: the next lookup of the same key tries again. */
const MAX_IN_FLIGHT = 4_096

/** Writes records that a gateway had to look up to Redis, without delaying the response. */
function createRefill(
  announcer: Announcer,
  outbox: Outbox,
  logger: ControlLogger,
): (keys: readonly StoredKey[]) => void {
  let inFlight = 0
  return found => {
    const keys = found.slice(0, MAX_IN_FLIGHT - inFlight)
    if (announcer.state() !== 'ready' || keys.length === 0) return
    inFlight += keys.length
    void outbox.write(keys.map(key => ({ key, messages: [] }))).then(results => {
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

/** Announces in every region at once: each for itself, so that one that is down holds up no other. */
export type InEachRegion = (announce: (outbox: Outbox) => Promise<boolean>) => Promise<Announced>

export function createInEachRegion(regions: readonly Pick<Region, 'name' | 'outbox'>[]): InEachRegion {
  return announce =>
    Promise.all(
      regions.map(async ({ name, outbox }) => ({ region: name, announced: await announce(outbox) })),
    )
}
