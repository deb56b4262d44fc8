import { neverReloads } from '../../../src/config/reloadable.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { encodeRecord, recordKeyName } from '../../../src/domain/wire.ts'
import { createKeyStore } from '../../../src/keys/create-key-store.ts'
import { KeyServiceClient } from '../../../src/keys/tiers/key-service-client.ts'
import { KeyServiceStore } from '../../../src/keys/tiers/key-service-store.ts'
import { MemoryStore } from '../../../src/keys/tiers/memory-store.ts'
import { MeasuredReader, RedisStore } from '../../../src/keys/tiers/redis-store.ts'
import { withBreaker, withObservation } from '../../../src/keys/tiers/resilience.ts'
import { FailureLog } from '../../../src/observability/failure-log.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { createServerClient, findServer } from '../../../src/redis/clients.ts'
import { RedisConnection } from '../../../src/redis/redis-connection.ts'
import { ChaosTier } from '../../support/chaos-tier.ts'
import { describeKeyLookup, type LookupUnderTest } from '../../support/key-lookup-contract.ts'
import { grantOf, RECORD_KEY } from '../../support/key-records.ts'
import { keyStoreConfig } from '../../support/key-store-config.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { RedisServer } from '../../support/redis-server.ts'
import { answer, ScriptedKeyService } from '../../support/scripted-key-service.ts'
import { until } from '../../support/until.ts'

function memory(): LookupUnderTest {
  const store = new MemoryStore(1_000, { metrics: createMetrics() })
  const verification = { verifiedAtMs: 0, epoch: 1, keyServiceSkipped: false }
  return {
    get: async digest => {
      const grant = store.get(digest)?.grant ?? null
      return grant === null ? { kind: 'miss' } : { kind: 'found', grant }
    },
    put: (digest, record) => store.remember(digest, grantOf(record), verification),
  }
}

async function redis(): Promise<LookupUnderTest> {
  const server = await RedisServer.start()
  const metrics = createMetrics()
  const { redis } = keyStoreConfig({ redisUrl: server.url })
  const connection = new RedisConnection(createServerClient(redis, findServer(redis)), {})
  const deps = { metrics, clock: systemClock, commandTimeoutMs: redis.commandTimeoutMs }
  const store = new RedisStore(new MeasuredReader(connection, deps), () => [RECORD_KEY])
  connection.start()
  await until('the reader is ready', () => connection.isReady)
  return {
    get: digest => store.get(digest),
    put: async (digest, record) => {
      await server.admin.set(recordKeyName(digest), encodeRecord(record, digest, RECORD_KEY))
    },
    break: () => server.freeze(),
    mend: async () => {
      server.thaw()
      await until('Redis replies', async () => (await store.get('none')).kind !== 'failed')
    },
    stop: async () => {
      connection.stop()
      await server.stop()
    },
  }
}

async function keyService(): Promise<LookupUnderTest> {
  const server = await ScriptedKeyService.start()
  const client = new KeyServiceClient({
    url: server.url,
    token: ['a-token-of-the-test'],
    timeoutMs: 1_000,
    tls: {},
  })
  const store = new KeyServiceStore(client, { timeoutMs: 1_000 })
  return {
    get: digest => store.get(digest),
    put: (digest, record) => void server.records.set(digest, record),
    break: () => {
      server.script = (_request, response) => answer(response, 500, '')
    },
    mend: () => {
      server.script = (request, response) => server.byTheContract(request, response)
    },
    stop: async () => {
      await client.stop()
      await server.stop()
    },
  }
}

/** The lookup chain of a gateway with only a key service. */
async function chain(): Promise<LookupUnderTest> {
  const server = await ScriptedKeyService.start()
  const config = keyStoreConfig({ keyServiceUrl: server.url, staleSeconds: 0 })
  const keys = createKeyStore({
    config,
    metrics: createMetrics(),
    logger: new LogSpy(),
    clock: systemClock,
    onReload: neverReloads,
  })
  keys.start()
  return {
    get: async digest => await keys.keyStore.get(digest),
    put: (digest, record) => void server.records.set(digest, record),
    break: () => {
      server.script = (_request, response) => answer(response, 500, '')
    },
    mend: () => {
      server.script = (request, response) => server.byTheContract(request, response)
    },
    stop: async () => {
      await keys.stop()
      await server.stop()
    },
  }
}

/** A failing tier in all of its wrappers. @param how it fails */
function wrapped(how: 'throws' | 'fails'): LookupUnderTest {
  const grants = new Map<string, ReturnType<typeof grantOf>>()
  const tier = new ChaosTier('redis', digest => {
    const grant = grants.get(digest)
    return grant === undefined ? { kind: 'miss' } : { kind: 'found', grant }
  })
  const failures = new FailureLog('chaos', new LogSpy(), systemClock)
  const clock = new ManualClock()
  const breaker = withBreaker(tier, { failures: 1, openMs: 500 }, clock)
  const dressed = withObservation(breaker, createMetrics(), failures)
  return {
    get: digest => dressed.get(digest),
    put: (digest, record) => void grants.set(digest, grantOf(record)),
    break: () => tier[how](),
    mend: async () => {
      tier.answers()
      clock.advance(500)
      breaker.watch()
      await until('the breaker has closed', () => !breaker.isOpen)
    },
  }
}

describeKeyLookup('memory', memory, {
  ofUnknownKey: 'miss',
  whileBroken: { cannotBe: 'memory is in this process' },
})
describeKeyLookup('Redis', redis, { ofUnknownKey: 'miss', whileBroken: 'failed' })
describeKeyLookup('the key service', keyService, { ofUnknownKey: 'absent', whileBroken: 'failed' })
describeKeyLookup('a wrapped tier that throws', () => wrapped('throws'), {
  ofUnknownKey: 'miss',
  whileBroken: 'failed',
})
describeKeyLookup('a wrapped tier that cannot be reached', () => wrapped('fails'), {
  ofUnknownKey: 'miss',
  whileBroken: 'failed',
})
describeKeyLookup('the chain', chain, { ofUnknownKey: 'absent', whileBroken: 'unknown' })
