import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { neverReloads } from '../../../src/config/reloadable.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { createKeyStore, type RunningKeyStore } from '../../../src/keys/create-key-store.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { selfSigned } from '../../support/certificates.ts'
import { freePort } from '../../support/free-port.ts'
import { digestNo } from '../../support/key-records.ts'
import { keyStoreConfig } from '../../support/key-store-config.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { redisHasTls } from '../../support/redis-program.ts'
import { RedisServer } from '../../support/redis-server.ts'
import { answer } from '../../support/scripted-key-service.ts'
import { until } from '../../support/until.ts'

const KEY = digestNo(1)
const certificates = await selfSigned()
let redis: RedisServer
let redisUrl: string
let keyService: Server
let keyServiceUrl: string

beforeAll(async () => {
  const { certFile, keyFile } = certificates
  const port = await freePort()
  const files = ['--tls-cert-file', certFile, '--tls-key-file', keyFile, '--tls-ca-cert-file', certFile]
  const settings = ['--tls-port', String(port), ...files, '--tls-auth-clients', 'no']
  redis = await RedisServer.start({ settings })
  redisUrl = `rediss://localhost:${port}`
  keyService = createServer(
    { cert: readFileSync(certFile), key: readFileSync(keyFile) },
    (_request, response) => answer(response, 404, '{"code":"not_found","error":"No such key"}'),
  ).listen(0, '127.0.0.1')
  await once(keyService, 'listening')
  keyServiceUrl = `https://localhost:${(keyService.address() as { port: number }).port}`
})
afterAll(async () => {
  await redis.stop()
  keyService.closeAllConnections()
  keyService.close()
  certificates.remove()
})

async function running<T>(caFile: string | null, use: (keys: RunningKeyStore, log: LogSpy) => Promise<T>) {
  const config = keyStoreConfig({ redisUrl, keyServiceUrl, heartbeats: false })
  const ca = caFile === null ? {} : { caFile }
  const log = new LogSpy()
  const keys = createKeyStore({
    config: { ...config, redis: { ...config.redis, ...ca }, keyService: { ...config.keyService, tls: ca } },
    metrics: createMetrics(),
    logger: log,
    clock: systemClock,
    onReload: neverReloads,
  })
  keys.start()
  try {
    return await use(keys, log)
  } finally {
    await keys.stop()
  }
}

describe.skipIf(!redisHasTls())('over TLS', () => {
  test('Redis and the key service are reached if the configured authority issued their certificates', async () => {
    await running(certificates.certFile, async keys => {
      await until('the gateway is connected', () => keys.health().changes === 'connected')
      // On a busy machine the first handshake with the key service may take longer than a lookup may.
      const lookup = await until('the lookup succeeds', async () => {
        const answer = await keys.keyStore.get(KEY)
        return answer.kind !== 'unknown' && answer
      })
      expect(lookup).toMatchObject({ kind: 'absent', tier: 'key_service' })
    })
  })

  test('a server whose certificate another authority issued is rejected', async () => {
    await running(null, async (keys, log) => {
      expect(await keys.keyStore.get(KEY)).toEqual({ kind: 'unknown' })
      await until('it is logged', () => log.count('redis subscriber failing') === 1)
      expect(keys.health()).toMatchObject({ redis: 'down', changes: 'disconnected' })
    })
  })
})
