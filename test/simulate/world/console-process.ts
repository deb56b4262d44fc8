import { createSecretKey } from 'node:crypto'
import { startHeartbeats } from '../../../src/control/registry/announcing/heartbeats.ts'
import { createMessageEncoder } from '../../../src/control/registry/announcing/message-encoder.ts'
import { Outbox } from '../../../src/control/registry/announcing/outbox.ts'
import { createRedisAnnouncer } from '../../../src/control/registry/announcing/redis-announcer.ts'
import { createRefill } from '../../../src/control/registry/announcing/refill.ts'
import type { KeyRepository, StoredKey } from '../../../src/control/registry/database/key-repository.ts'
import type { Registry } from '../../../src/control/registry/registry.ts'
import { encodeRecord } from '../../../src/domain/wire.ts'
import type {
  KeyServiceRequest,
  KeyServiceResponse,
} from '../../../src/keys/tiers/key-service/key-service-client.ts'
import { createRedisConnection } from '../../../src/redis/announcing-connection.ts'
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
  const connection = createRedisConnection({ config, metrics: NO_METRICS, logger: NO_LOG, network })
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
      ...{ repository, outbox, clock, timers },
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

interface Answering {
  readonly repository: KeyRepository
  readonly refill: (keys: readonly StoredKey[]) => void
}

interface Body {
  readonly digests: readonly string[]
  readonly gateway: { readonly id: string; readonly name: string }
  readonly hearing: boolean
  readonly leaving: boolean
  readonly confirmed: readonly { readonly digest: string; readonly version: number }[]
}

/** What `key-service-calls.ts` does, without HTTP. */
async function answer(
  { repository, refill }: Answering,
  { path, body }: KeyServiceRequest,
): Promise<KeyServiceResponse> {
  if (path.startsWith('/keys/')) {
    const key = await repository.findByDigest(path.slice('/keys/'.length))
    if (key === null) return { status: 404, text: '{"code":"not_found"}' }
    refill([key])
    return { status: 200, text: encodeRecord(key.record, key.digest, RECORD_KEY) }
  }
  // Made by `KeyServiceStore` and `ChangeConfirmer`; another path has no body that fits.
  const { digests = [], gateway, hearing, leaving, confirmed } = body as Body
  if (path === '/lookups') {
    const keys = await repository.findByDigests(digests)
    refill([...keys.values()])
    const texts = digests.map(digest => `"${digest}":${textOf(keys.get(digest))}`)
    return { status: 200, text: `{"records":{${texts.join(',')}}}` }
  }
  await repository.recordGateway({ ...gateway, isConnected: hearing, isLeaving: leaving, confirmed })
  return { status: 200, text: '{}' }
}

function textOf(key: StoredKey | undefined): string {
  return key === undefined ? 'null' : encodeRecord(key.record, key.digest, RECORD_KEY)
}
