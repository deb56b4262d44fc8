import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { startPostern } from '../support/postern-process.ts'
import { scrape } from '../support/scrape.ts'

test('a gateway that is ready has given back the memory that only its start needed', async () => {
  const gateway = await startPostern('gateway', {
    POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
    POSTERN_REDIS_URL: 'redis://127.0.0.1:1',
    POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
  })
  onTestFinished(() => void gateway.process.stop())
  const metrics = await scrape(gateway.urls.ops)
  const held = metrics.get('nodejs_heap_size_total_bytes') ?? Number.NaN
  const used = metrics.get('nodejs_heap_size_used_bytes') ?? Number.NaN
  expect(held / used).toBeLessThan(1.3)
})
