import { execFileSync } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { oldGenerationLimit } from '../../src/run/process-limits.ts'
import { PROGRAM, startPostern } from '../support/postern-process.ts'
import { get, RawClient } from '../support/raw-client.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const MEBIBYTE = 1024 * 1024
const TARGET = '/api/v1/workspaces/ws_1'
let world: World
let key: IssuedKey
beforeAll(async () => {
  world = await startWorld({ POSTERN_LOG_LEVEL: 'warn' })
  key = await world.issue()
})
afterAll(() => world.stop())

test.each([
  ['--max-old-space-size=48'],
  ['--max-old-space-size=512'],
  ['--max-old-space-size=100', '--max-semi-space-size=16'],
  ['--max_semi_space_size=8', '--max-old-space-size=300', '--max-semi-space-size=4'],
])('the limit set by %s %s is derived from what V8 reports', (...options) => {
  const script = 'process.stdout.write(String(require("v8").getHeapStatistics().heap_size_limit))'
  const reported = Number(execFileSync(process.execPath, [...options, '-e', script], { encoding: 'utf8' }))
  const set = /--max-old-space-size=(\d+)/.exec(options.join(' '))?.[1]
  expect(oldGenerationLimit(reported, options.join(' '))).toBe(Number(set) * MEBIBYTE)
})

test('a limit that V8 divides itself is used as it is', () => {
  expect(oldGenerationLimit(100 * MEBIBYTE, '--max-heap-size=100')).toBe(100 * MEBIBYTE)
  expect(oldGenerationLimit(100 * MEBIBYTE, '')).toBe(100 * MEBIBYTE)
})

test('a gateway whose heap is nearly full serves one request at a time, rejects the others, and survives', async () => {
  // The program itself needs more than a tenth of this.
  const launcher = [process.execPath, '--max-old-space-size=128', ...PROGRAM]
  const env = { ...world.env, POSTERN_GATEWAY_MAX_HEAP_PERCENT: '10' }
  const gateway = await startPostern('gateway', env, [], launcher)
  const release = Promise.withResolvers<void>()
  world.upstream.hold = () => release.promise
  const before = world.upstream.requests.length
  const first = new RawClient(gateway.urls.gateway)
  const other = new RawClient(gateway.urls.gateway)
  first.send(get(TARGET, key.secret))
  await until('one request is at the upstream', () => world.upstream.requests.length > before)
  await until('the others are rejected', async () => {
    const asked = new RawClient(gateway.urls.gateway)
    asked.send(get('/api/v1/auth', key.secret))
    const [answer] = await asked.answers(1)
    asked.end()
    return answer?.status === 503 && answer.body.includes('"overloaded"')
  })
  expect((await fetch(`${gateway.urls.ops}/readyz`)).status).toBe(200)
  release.resolve()
  expect((await first.answers(1))[0]?.status).toBe(200)
  other.send(get(TARGET, key.secret))
  expect((await other.answers(1))[0]?.status).toBe(200)
  await gateway.process.stop()
})
