import { expect, test } from 'vitest'
import { readSingle } from '../../src/keys/tiers/key-service-store.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { createOpsServer, type Health } from '../../src/observability/ops-server.ts'
import { silentLogger } from '../support/silent-logger.ts'

const appOf = (health: Health) =>
  createOpsServer({ metrics: createMetrics(), logger: silentLogger, health, publicKeys: () => null })

async function readyz(health: Health) {
  const answer = await appOf(health).inject('/readyz')
  return { status: answer.statusCode, says: answer.json() as object }
}

test.each(['starting', 'misconfigured', 'draining'] as const)('a %s process is not ready', async state => {
  const health = { state: () => state, details: async () => ({ database: 'failed' }) }
  expect(await readyz(health)).toEqual({ status: 503, says: { status: state, database: 'failed' } })
})

test.each([
  ['hangs', () => new Promise<never>(() => {}), 'late'],
  ['fails', () => Promise.reject(new Error('no')), 'failed'],
])('a process is ready also where what it asks of others %s', async (_, details, said) => {
  const health = { state: () => 'ready' as const, details }
  expect(await readyz(health)).toEqual({ status: 200, says: { status: 'ready', details: said } })
})

test('a gateway that takes the ops port for its key service learns of no key that it does not exist', async () => {
  const digest = '0'.repeat(64)
  const app = appOf({ state: () => 'ready', details: async () => ({}) })
  const { statusCode: status, body: text } = await app.inject(`/internal/v1/keys/${digest}`)
  expect([status, readSingle({ status, text }, digest).kind]).toEqual([404, 'failed'])
})
