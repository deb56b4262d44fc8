import { expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { CHANGES_CHANNEL } from '../../src/domain/wire.ts'
import { startConsole } from '../support/console.ts'
import { readMessage } from '../support/messages.ts'
import { metricValue } from '../support/metric-value.ts'
import { Replica } from '../support/redis-fleet.ts'
import { RedisServer } from '../support/redis-server.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'
import { regionAt } from './region-settings.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'

async function startRedis(): Promise<RedisServer> {
  const redis = await RedisServer.start()
  onTestFinished(() => redis.stop())
  return redis
}

/** Publishes in one Redis the heartbeats of the other, as an attacker with the rights to do so would. */
async function replayHeartbeats(from: RedisServer, to: RedisServer) {
  const replayed = { heartbeats: 0 }
  const [subscriber, publisher] = [from.client(), to.client()]
  subscriber.on('message', (channel: string, text: string) => {
    if (readMessage(text)?.kind !== 'heartbeat') return
    replayed.heartbeats++
    void publisher.publish(channel, text)
  })
  await subscriber.subscribe(CHANGES_CHANNEL)
  return replayed
}

test('heartbeats of one region, replayed to another that is cut off, keep no gateway connected: it rejects a revoked key', async () => {
  const [eu, us] = [await startRedis(), await startRedis()]
  const toUs = await TcpProxy.start(us.url)
  onTestFinished(() => toUs.stop())
  const regions = [regionAt('eu', eu.url), regionAt('us', `redis://127.0.0.1:${toUs.port}`)]
  const { send, internal } = await startConsole({ regions })
  const keyServiceUrl = await internal.listen({ host: '127.0.0.1', port: 0 })
  const gateway = new Replica({ redisUrl: us.url, region: 'us', keyServiceUrl })
  onTestFinished(() => gateway.running.stop())
  await until('the gateway is connected', () => gateway.isConnected)
  const issued = await send('POST', KEYS, { name: 'k', scopes: ['workspace:read'] })
  const digest = digestKey(issued.body.secret)
  expect(await gateway.verdict(digest)).toBe('good')

  const replayed = await replayHeartbeats(eu, us)
  await until('heartbeats are replayed', () => replayed.heartbeats > 2)
  toUs.hold('forth')
  const { body } = await send('POST', `/admin/v1/keys/${issued.body.key.id}/revoke`)
  expect(body.regions).toMatchObject([{ announced: true }, { announced: false }])
  await until('the gateway rejects the key', async () => (await gateway.verdict(digest)) === 'revoked')
  const before = replayed.heartbeats
  await until('more heartbeats are replayed', () => replayed.heartbeats > before + 2)
  expect([gateway.isConnected, await gateway.verdict(digest)]).toEqual([false, 'revoked'])
  const unverified = await metricValue(gateway.metrics.invalidations, { result: 'unverified' })
  expect(unverified).toBeGreaterThan(before)

  toUs.resume()
  await until('the gateway is connected again', () => gateway.isConnected)
})

test('heartbeats of its own region, replayed to a gateway that has just started, do not connect it: it rejects a revoked key', async () => {
  const redis = await startRedis()
  const toRedis = await TcpProxy.start(redis.url)
  onTestFinished(() => toRedis.stop())
  const { send, internal, metrics } = await startConsole({
    regions: [regionAt('eu', `redis://127.0.0.1:${toRedis.port}`)],
  })
  const keyServiceUrl = await internal.listen({ host: '127.0.0.1', port: 0 })
  const recorded: { text: string; atMs: number }[] = []
  const subscriber = redis.client()
  subscriber.on('message', (_, text: string) => {
    const message = readMessage(text)
    if (message?.kind === 'heartbeat') recorded.push({ text, atMs: message.atMs })
  })
  await subscriber.subscribe(CHANGES_CHANNEL)
  const issued = await send('POST', KEYS, { name: 'k', scopes: ['workspace:read'] })
  await until('heartbeats are recorded', () => recorded.length >= 5)
  toRedis.hold('forth')
  const { body } = await send('POST', `/admin/v1/keys/${issued.body.key.id}/revoke`)
  expect(body.regions).toMatchObject([{ announced: false }])
  await until('they are some seconds old', () => Date.now() - (recorded.at(-1)?.atMs ?? 0) > 2_500)

  const gateway = new Replica({ redisUrl: redis.url, region: 'eu', keyServiceUrl })
  onTestFinished(() => gateway.running.stop())
  const publisher = redis.client()
  const answers = { operation: 'confirmations', code: '200' }
  // The second report is sent once the answer to the first is read, which says the time.
  await until(
    'the gateway knows the time',
    async () => (await metricValue(metrics.internalRequests, answers)) > 1,
  )
  // It receives a message once it has subscribed. Each is the first of its sender, or a copy of it.
  await until('the gateway receives one', async () => {
    await publisher.publish(CHANGES_CHANNEL, recorded[0]?.text ?? '')
    return (await metricValue(gateway.metrics.clockSkew)) > 2
  })
  expect([gateway.isConnected, await gateway.verdict(digestKey(issued.body.secret))]).toEqual([
    false,
    'revoked',
  ])

  toRedis.resume()
  await until('the gateway is connected', () => gateway.isConnected)
})
