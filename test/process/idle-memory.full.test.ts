import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { startPostern } from '../support/postern-process.ts'
import { scrape } from '../support/scrape.ts'

/** Measured on Node 24: 144 MB as soon as it is ready, 105 MB after 25 seconds. */
const LIMIT_BYTES = 200_000_000

test('an idle gateway uses at most half of the 384 MiB that its container gets', async () => {
  const gateway = await startPostern('gateway', {
    POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
    POSTERN_REDIS_URL: 'redis://127.0.0.1:1',
    POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
  })
  onTestFinished(() => void gateway.process.stop())
  const resident = (await scrape(gateway.urls.ops)).get('process_resident_memory_bytes')
  expect(resident).toBeGreaterThan(0)
  expect(resident).toBeLessThan(LIMIT_BYTES)
})
