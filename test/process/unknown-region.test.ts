import { expect, onTestFinished, test } from 'vitest'
import { startPostern } from '../support/postern-process.ts'
import { RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'
import { ADMIN_TOKEN, readiness, SHARED } from './starts.ts'

test('a gateway of a region that the console does not know never becomes part of a rollout: it is misconfigured, and says so', {
  timeout: 60_000,
}, async () => {
  const redis = await RedisServer.start()
  const console = await startPostern('console', {
    ...SHARED,
    POSTERN_REGIONS: JSON.stringify([{ name: 'eu', redis: { url: redis.url } }]),
    POSTERN_ADMIN_TOKEN: ADMIN_TOKEN,
    POSTERN_DATABASE_URL: 'sqlite::memory:',
  })
  const gatewayOf = (region: string) =>
    startPostern('gateway', {
      ...SHARED,
      POSTERN_REGION: region,
      POSTERN_REDIS_URL: redis.url,
      POSTERN_KEY_SERVICE_URL: console.urls.internal,
      POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
    })
  const [known, unknown] = await Promise.all([gatewayOf('eu'), gatewayOf('uk')])
  onTestFinished(async () => {
    await Promise.all([known, unknown, console].map(({ process }) => process.stop()))
    await redis.stop()
  })
  await until('the console has answered', async () => (await readiness(unknown.urls.ops)).code === 503)
  expect((await readiness(unknown.urls.ops)).says).toMatchObject({ status: 'misconfigured' })
  await unknown.process.logged(
    ({ msg, region, regions }) =>
      msg === 'the console has no such region' && region === 'uk' && String(regions) === 'eu',
  )
  await until(
    'the other is connected',
    async () => (await readiness(known.urls.ops)).says['changes'] === 'connected',
  )
  expect((await readiness(known.urls.ops)).code).toBe(200)
})
