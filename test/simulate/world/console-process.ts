import { createMessageEncoder } from '../../../src/control/registry/announcing/message-encoder.ts'
import { createRegions } from '../../../src/control/registry/announcing/regions.ts'
import type { Registry } from '../../../src/control/registry/registry.ts'
import type {
  KeyServiceRequest,
  KeyServiceResponse,
} from '../../../src/keys/tiers/key-service/key-service-client.ts'
import { answer } from './key-service-calls.ts'
import { Process } from './process.ts'
import { redisNetworkOf } from './redis-sites.ts'
import { createSimulatedRepository } from './repository.ts'
import { CONSOLE_SECRETS, consoleConfig, NO_LOG, NO_METRICS } from './settings.ts'
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
  const repository = createSimulatedRepository(world.database, process, world.laws)
  const randomBytes = (size: number): Buffer => Buffer.alloc(size)
  const regions = createRegions(
    {
      config: consoleConfig(world.settings, world.knownRegions),
      ...{ metrics: NO_METRICS, logger: NO_LOG, clock, timers, randomBytes },
      redisNetwork: redisNetworkOf(process, world.sites),
      onReload: () => {},
      random: () => random.next(),
      consoleId: sender,
      secrets: { value: CONSOLE_SECRETS },
    },
    repository,
    region => createMessageEncoder({ sender, region, clock, messageKey: () => null }),
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
  let ids = 0
  const newId = (): string => `${name}_${run}_${ids++}`
  return {
    process,
    registry: {
      ...{ repository, clock, timers, randomBytes },
      outbox: regions.outboxes,
      newKeyId: newId,
      newAuditId: newId,
      keyPrefix: 'wsk_',
      signingKey: CONSOLE_SECRETS.signingKey,
      knownScopes: [],
      createEvents: () => [],
    },
    get isServing() {
      return isRegistered && process.isAlive
    },
    serve: request => answer({ repository, clock, refill: keys => regions.refill(keys) }, request),
    end: () => process.end(),
  }
}
