import { randomBytes } from 'node:crypto'
import { onTestFinished, test } from 'vitest'
import { startPostern } from '../support/postern-process.ts'
import { scrape } from '../support/scrape.ts'
import { until } from '../support/until.ts'

test('a gateway that nobody asks for anything gives back the memory that only its start needed', async () => {
  const gateway = await startPostern('gateway', {
    POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
    POSTERN_REDIS_URL: 'redis://127.0.0.1:1',
    POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
  })
  onTestFinished(() => void gateway.process.stop())
  await until('the heap is little more than what is used of it', async () => {
    const metrics = await scrape(gateway.urls.ops)
    const held = metrics.get('nodejs_heap_size_total_bytes') ?? Number.NaN
    const used = metrics.get('nodejs_heap_size_used_bytes') ?? Number.NaN
    return held / used < 1.3
  })
})
