import { expect, onTestFinished, test } from 'vitest'
import { Parts } from '../support/parts.ts'
import { until } from '../support/until.ts'
import { readiness } from './starts.ts'

test('a gateway of a region that the console does not know never becomes part of a rollout: it is misconfigured, and says so', async () => {
  const parts = new Parts()
  onTestFinished(() => parts.stop())
  const redis = await parts.redis()
  const console = await parts.console({
    POSTERN_REGIONS: JSON.stringify([{ name: 'eu', redis: { url: redis.url } }]),
  })
  const gatewayOf = (region: string) =>
    parts.gateway({
      POSTERN_REGION: region,
      POSTERN_REDIS_URL: redis.url,
      POSTERN_KEY_SERVICE_URL: console.urls.internal,
      POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
    })
  const [known, unknown] = await Promise.all([gatewayOf('eu'), gatewayOf('uk')])
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
