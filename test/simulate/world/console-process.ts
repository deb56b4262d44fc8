import { createSecretKey } from 'node:crypto'
import { startHeartbeats } from '../../../src/control/registry/announcing/heartbeats.ts'
import { createMessageEncoder } from '../../../src/control/registry/announcing/message-encoder.ts'
import { Outbox } from '../../../src/control/registry/announcing/outbox.ts'
import { createRedisAnnouncer } from '../../../src/control/registry/announcing/redis-announcer.ts'
import { createRefill } from '../../../src/control/registry/announcing/refill.ts'
import { RegionOutboxes } from '../../../src/control/registry/announcing/region-outboxes.ts'
import type { Registry } from '../../../src/control/registry/registry.ts'
import { DEFAULT_REGION } from '../../../src/domain/region.ts'
import type {
  KeyServiceRequest,
  KeyServiceResponse,
} from '../../../src/keys/tiers/key-service/key-service-client.ts'
import { createRedisConnection } from '../../../src/redis/announcing-connection.ts'
import { answer } from './key-service-calls.ts'
import { Process } from './process.ts'
import { createSimulatedRepository } from './repository.ts'
import { MESSAGE_KEY, NO_LOG, NO_METRICS, RECORD_KEY, redisSettings } from './settings.ts'
import type { World } from './world.ts'

const UNUSED_KEY = createSecretKey(Buffer.alloc(32))

/** One run of a console: operations, outbox, heartbeats and the key service, as `createConsole` puts them together. */
export interface ConsoleRun {
  readonly process: Process
  readonly registry: Registry
  serve(request: KeyServiceRequest): Promise<KeyServiceResponse>
  end(): void
}

export function startConsole(world: World, name: string, run: number): ConsoleRun {
  const { scheduler, random } = world
  const process = new Process(name, scheduler, random)
  const { clock, timers } = process
  const repository = createSimulatedRepository(world.database, process, world.laws)
  const network = world.redis.networkOf(process)
  const config = redisSettings(world.redis.servers.length > 1)
  const connection = createRedisConnection({
    ...{ config, metrics: NO_METRICS, logger: NO_LOG, network, timers },
    onUp: () => {},
  })
  const announcer = createRedisAnnouncer({
    connection,
    commandTimeoutMs: config.commandTimeoutMs,
    recordKeys: [RECORD_KEY],
    metrics: NO_METRICS,
  })
  const messages = createMessageEncoder({ sender: `${name}-${run}`, clock, messageKey: () => MESSAGE_KEY })
  const parts = { repository, announcer, messages, clock, timers, logger: NO_LOG }
  const outbox = new Outbox({ ...parts, random: () => random.next() })
  const refill = createRefill(announcer, NO_LOG)
  world.laws.sends(`${name}-${run}`, process)
  announcer.start()
  const stopHeartbeats = startHeartbeats({ ...parts, outbox })
  let ids = 0
  const newId = (): string => `${name}_${run}_${ids++}`
  return {
    process,
    registry: {
      ...{ repository, clock, timers },
      outbox: new RegionOutboxes(new Map([[DEFAULT_REGION, outbox]])),
      randomBytes: size => Buffer.alloc(size),
      newKeyId: newId,
      newAuditId: newId,
      keyPrefix: 'wsk_',
      signingKey: UNUSED_KEY,
      knownScopes: [],
      createEvents: () => [],
    },
    serve: request => answer({ repository, refill }, request),
    end() {
      process.end()
      stopHeartbeats()
    },
  }
}
