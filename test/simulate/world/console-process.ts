import { createRegions } from '../../../src/console/announcing/regions.ts'
import type { Registry } from '../../../src/console/keys/operations/registry.ts'
import { createIds } from '../../../src/console/platform/database/ids.ts'
import type { StoredKey } from '../../../src/domain/key/key-record.ts'
import type { KeyServiceRequest, KeyServiceResponse } from '../../../src/keys/tiers/key-service-client.ts'
import { surfacesOf } from '../../support/repository.ts'
import type { Database } from './database.ts'
import { answer } from './key-service-calls.ts'
import { Process } from './process.ts'
import { redisNetworkOf } from './redis-sites.ts'
import { createSimulatedRepository, type Repository } from './repository.ts'
import { CONSOLE_SECRETS, consoleConfig, NO_LOG, NO_METRICS, SCOPES } from './settings.ts'
import { createSqliteRepository } from './sqlite-repository.ts'
import type { World } from './world.ts'

/** A console that cannot register its regions ends, and is started again after this. */
const START_AGAIN_MS = 500

/** One run of a console: operations, outboxes, heartbeats and the key service, as `createConsole` puts them together. */
export interface ConsoleRun {
  readonly process: Process
  readonly registry: Registry
  /** It has registered its regions. */
  readonly isServing: boolean
  serve(request: KeyServiceRequest): Promise<KeyServiceResponse>
  end(): void
}

export function startConsole(world: World, name: string, run: number): ConsoleRun {
  const { scheduler, random } = world
  const process = new Process(name, scheduler, random)
  const { clock, timers } = process
  const sender = `${name}-${run}`
  const { database, watcher } = world
  const { sqlite } = database
  const repository =
    sqlite === null
      ? createSimulatedRepository(database, process, sender, watcher)
      : createSqliteRepository({ sqlite, database }, process, sender, watcher)
  const randomBytes = (size: number): Buffer =>
    Buffer.from(Array.from({ length: size }, () => random.below(256)))
  const regions = createRegions(
    {
      config: consoleConfig(world.settings, world.knownRegions),
      ...{ metrics: NO_METRICS, logger: NO_LOG, clock, timers, randomBytes },
      redisNetwork: redisNetworkOf(process, world.sites),
      onReload: () => {},
      onWaiting: () => {},
      version: '0.0.0',
      random: () => random.next(),
      consoleId: sender,
      secrets: { value: CONSOLE_SECRETS },
    },
    { regionRows: repository, keys: repository },
  )
  world.laws.sends(sender, process)
  let isRegistered = false
  const start = (): void => {
    regions.register().then(
      () => {
        isRegistered = true
        regions.start()
      },
      () => void timers.after(START_AGAIN_MS, start),
    )
  }
  start()
  /** A key service that reads from a replica writes nothing to Redis. */
  const refill = (keys: readonly StoredKey[]): void => {
    if (!database.isLagging) regions.refill(keys)
  }
  return {
    process,
    registry: {
      ...{ ...surfacesOf(repository), clock, timers, randomBytes },
      inEachRegion: regions.inEach,
      newKeyId: createIds('key', randomBytes),
      newAuditId: createIds('audit', randomBytes),
      keyPrefix: 'wsk_',
      signingKey: CONSOLE_SECRETS.signingKey,
      knownScopes: SCOPES,
      knownPlans: [],
      createEvents: () => [],
      count: (_, run) => run(),
    },
    get isServing() {
      return isRegistered && process.isAlive
    },
    serve: request =>
      answer({ gateways: repository, clock, find: findFor(database, process, repository), refill }, request),
    end: () => process.end(),
  }
}

/** Lookups of the key service, which may read from a replica. */
function findFor(database: Database, process: Process, repository: Pick<Repository, 'findByDigests'>) {
  return async (digests: readonly string[]): Promise<(StoredKey | null)[]> => {
    if (database.sqlite === null)
      return database.call(process, () => digests.map(digest => database.findAtReplica(digest)))
    const found = await repository.findByDigests(digests)
    return digests.map(digest => found.get(digest) ?? null)
  }
}
