import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { neverReloads } from '../../src/config/reloadable.ts'
import { systemClock } from '../../src/domain/clock.ts'
import { createKeyStore } from '../../src/keys/create-key-store.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { type Certificates, makeCertificates } from '../support/certificates.ts'
import { ConsoleDouble } from '../support/console-double.ts'
import { freePort } from '../support/free-port.ts'
import { digestNo, recordOf } from '../support/key-records.ts'
import { keyStoreConfig } from '../support/key-store-config.ts'
import { LogSpy } from '../support/log-spy.ts'
import { NOWHERE, type Place } from '../support/redis-group.ts'
import { redisHasTls } from '../support/redis-program.ts'
import { RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'

const KEY = digestNo(1)
let certificates: Certificates

beforeAll(async () => {
  certificates = await makeCertificates()
})
afterAll(() => certificates.remove())

interface Encrypted {
  readonly server: RedisServer
  readonly place: Place
  stop(): Promise<void>
}

/** Files of a certificate for 127.0.0.1, as options of redis.conf. */
function tlsLines(port: number): string[] {
  const directory = dirname(certificates.caFile)
  const files = ['cert-file server.pem', 'key-file server.key', 'ca-cert-file ca.pem']
  const named = files.map(line => line.replace(' ', ` ${directory}/`))
  return [`tls-port ${port}`, 'tls-auth-clients no', ...named.map(line => `tls-${line}`)]
}

function asFlags(lines: readonly string[]): string[] {
  return lines.flatMap(line => `--${line}`.split(' '))
}

async function startSingle(): Promise<Encrypted> {
  const port = await freePort()
  const server = await RedisServer.start({ settings: asFlags(tlsLines(port)) })
  const place = { ...NOWHERE, url: `rediss://127.0.0.1:${port}` }
  return { server, place, stop: () => server.stop() }
}

async function startSentinel(): Promise<Encrypted> {
  const [port, sentinelPort, plainPort] = [await freePort(), await freePort(), await freePort()]
  const settings = asFlags([...tlsLines(port), 'tls-replication yes'])
  const server = await RedisServer.start({ settings })
  const file = join(dirname(certificates.caFile), 'sentinel.conf')
  const lines = [`port ${plainPort}`, 'bind 127.0.0.1', ...tlsLines(sentinelPort), 'tls-replication yes']
  await writeFile(file, `${[...lines, `sentinel monitor primary 127.0.0.1 ${port} 1`].join('\n')}\n`)
  const sentinel = await RedisServer.start({ port: plainPort, command: [file, '--sentinel'] })
  const urls = [`rediss://127.0.0.1:${sentinelPort}`]
  return {
    server,
    place: { ...NOWHERE, sentinel: { name: 'primary', urls } },
    stop: async () => {
      await sentinel.stop()
      await server.stop()
    },
  }
}

async function startCluster(): Promise<Encrypted> {
  const port = await freePort()
  const lines = ['cluster-enabled yes', `cluster-port ${await freePort()}`, 'cluster-announce-ip 127.0.0.1']
  const settings = asFlags([...tlsLines(port), ...lines, 'tls-cluster yes'])
  const server = await RedisServer.start({ settings })
  await server.admin.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383)
  await until('the cluster is healthy', async () =>
    String(await server.admin.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
  )
  const place = { ...NOWHERE, cluster: { urls: [`rediss://127.0.0.1:${port}`] } }
  return { server, place, stop: () => server.stop() }
}

const suite = redisHasTls() ? describe : describe.skip

suite.each([
  ['a single Redis', startSingle],
  ['a primary that encrypted Sentinels name', startSentinel],
  ['a Redis Cluster', startCluster],
] as const)('over TLS, %s', (_, start) => {
  let redis: Encrypted
  let heartbeats: ConsoleDouble
  beforeAll(async () => {
    redis = await start()
    heartbeats = new ConsoleDouble(redis.server)
    heartbeats.startHeartbeats()
    await heartbeats.write(KEY, recordOf())
  })
  afterAll(async () => {
    heartbeats.stopHeartbeats()
    await redis.stop()
  })

  function startGateway(caFile?: string) {
    const log = new LogSpy()
    const config = keyStoreConfig({ place: { ...redis.place, ...(caFile === undefined ? {} : { caFile }) } })
    const running = createKeyStore({
      ...{ config, metrics: createMetrics(), logger: log },
      ...{ clock: systemClock, onReload: neverReloads },
    })
    running.start()
    onTestFinished(() => running.stop())
    return { running, log }
  }

  test('can be read and subscribed to if the configured authority issued its certificate', async () => {
    const { running } = startGateway(certificates.caFile)
    await until('the gateway is connected', () => running.health().changes === 'connected')
    await until('Redis replies', async () => (await running.keyStore.get(KEY)).kind === 'found')
  })

  test('is rejected if another authority issued its certificate, and the log says why', async () => {
    const { running, log } = startGateway()
    await until('it is logged', () => log.text.includes('self-signed certificate in certificate chain'))
    expect(await running.keyStore.get(KEY)).toEqual({ kind: 'unknown' })
    expect(running.health()).toMatchObject({ redis: 'down', changes: 'disconnected' })
  })
})
