import { onReloadOf } from '../../config/reloadable.ts'
import type { RegionSettings } from '../../config/schema/schema.ts'
import type { StoredKey } from '../../domain/key/key-record.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
import { type ControlLogger, causeOf } from '../../observability/control-logger.ts'
import type { KeyRepository } from '../keys/rows/key-repository.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import type { Announcer } from './announcer.ts'
import { createConfiguredAnnouncer, createRegionAnnouncer } from './configured-announcer.ts'
import { startHeartbeats } from './heartbeats.ts'
import type { MessageEncoder } from './message-encoder.ts'
import { Outbox } from './outbox.ts'
import { createRefill } from './refill.ts'
import { RegionOutboxes } from './region-outboxes.ts'
import { RoundTrip } from './round-trip.ts'

/** Several times within the time after which a region is forgotten. */
const REGISTER_PERIOD_MS = 60_000

/** What a console needs to announce to one region. */
export interface Region {
  readonly name: string
  readonly announcer: Announcer
  readonly outbox: Outbox
  /** The repository with the outbox of this region. */
  readonly repository: KeyRepository
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

export function createRegions(
  context: ConsoleContext,
  repository: KeyRepository,
  messagesTo: (region: string) => MessageEncoder,
): Regions {
  const { config, timers, logger } = context
  const areNamed = config.regions.length > 0
  const up = new Set<string>()
  const list = areNamed
    ? config.regions.map((settings, index) =>
        openRegion({ ...context, up }, settings, index, { repository, messagesTo }),
      )
    : [openDefaultRegion(context, { repository, messagesTo })]
  const names = list.map(({ name }) => name)
  const refills = new Map(list.map(({ name, announcer, logger }) => [name, createRefill(announcer, logger)]))
  const register = () => repository.registerRegions(names)
  const registerAgain = async () => {
    await register()
    for (const { outbox } of list) outbox.requestDrainUnlessWaiting()
    for (const region of await repository.forgetRegions()) logger.warn({ region }, 'region forgotten')
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
        logger.warn({ cause: causeOf(error) }, 'regions not registered, retrying')
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

interface Shared {
  readonly repository: KeyRepository
  readonly messagesTo: (region: string) => MessageEncoder
}

function openDefaultRegion(context: ConsoleContext, { repository, messagesTo }: Shared): Region {
  const { logger } = context
  const messages = messagesTo(DEFAULT_REGION)
  const announcer = context.announcer ?? createConfiguredAnnouncer(context, context.secrets)
  const outbox = new Outbox({ ...context, repository, announcer, messages })
  return { name: DEFAULT_REGION, announcer, outbox, repository, messages, logger, roundTrip: null }
}

function openRegion(
  context: ConsoleContext & { readonly up: Set<string> },
  { name, redis }: RegionSettings,
  index: number,
  { repository, messagesTo }: Shared,
): Region {
  const messages = messagesTo(name)
  const logger = inRegion(context.logger, name)
  // A reload keeps the regions and their order.
  const onReload = onReloadOf(context.onReload, next => next.regions[index]?.redis ?? redis)
  const roundTrip = new RoundTrip()
  const parts = { ...context, logger, onReload, roundTrip }
  const announcer = createRegionAnnouncer({ name, redis }, parts, context.secrets)
  const ofRegion = { ...repository, ...repository.pendingIn(name) }
  const outbox = new Outbox({ ...context, logger, repository: ofRegion, announcer, messages })
  return { name, announcer, outbox, repository: ofRegion, messages, logger, roundTrip }
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
