import { afterAll, beforeAll, expect, test } from 'vitest'
import { startWorld, type World } from '../support/world.ts'
import { fuzzRequests } from './fuzz-requests.ts'

/** For a long run: `FUZZ_RUNS=100000 FUZZ_SEED=1 npx vitest run test/fuzz`. A finding names its seed. */
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 600)
const SEED = Number(process.env['FUZZ_SEED'] ?? 1)
let world: World

beforeAll(async () => {
  world = await startWorld({
    POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: '200',
    POSTERN_GATEWAY_KEEP_ALIVE_TIMEOUT_MS: '100',
  })
})
afterAll(() => world.stop())

test('for any client bytes, the upstream receives only valid requests, and the gateway keeps running', {
  timeout: 3_600_000,
}, async () => {
  const { secret } = await world.issue()
  const report = await fuzzRequests(world, secret, RUNS, SEED)
  process.stdout.write(
    `fuzz: ${report.sent} requests, ${report.upstreamRequests} reached the upstream, responses ${JSON.stringify([...report.statuses].sort())}, breaches ${report.breaches.length}\n`,
  )
  expect(report.breaches).toEqual([])
  expect(report.statuses.get(500)).toBeUndefined()
  expect(world.gateway.process.child.exitCode).toBeNull()
  expect(world.gateway.process.log.filter(line => Number(line['level']) >= 50)).toEqual([])
})
