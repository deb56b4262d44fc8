import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Listening, startPostern } from '../../support/postern-process.ts'
import { get, RawClient } from '../../support/raw-client.ts'
import { has, PROMTOOL } from '../../support/tools.ts'
import { startWorld, type World } from '../../support/world.ts'

let world: World
/** A second replica of the gateway, and one with another setting. */
let twin: Listening
let other: Listening

beforeAll(async () => {
  world = await startWorld()
  twin = await startPostern('gateway', world.env)
  other = await startPostern('gateway', { ...world.env, POSTERN_GATEWAY_MAX_IN_FLIGHT: '7' })
})
afterAll(async () => {
  await Promise.all([twin.process.stop(), other.process.stop()])
  await world.stop()
})

const scrape = async ({ urls }: Listening) => (await fetch(`${urls.ops}/metrics`)).text()
const lines = (text: string, start: string) => text.split('\n').filter(line => line.startsWith(start))

const sampleLike = (text: string, line: string) => lines(text, line.slice(0, line.lastIndexOf(' ') + 1))

/**
 * Names of other makers that break the convention: `_total` is for counters, but these gauges of Node.js clients
 * have always had it, and dashboards use them.
 */
const NOT_OURS = /^nodejs_active_(handles|requests|resources)_total /

describe.skipIf(!has(PROMTOOL))('promtool has no warnings about the metrics', () => {
  test.each(['gateway', 'console'] as const)('of the %s', async plane => {
    const lint = spawnSync('promtool', ['check', 'metrics'], {
      input: await scrape(world[plane]),
      encoding: 'utf8',
    })
    const warnings = `${lint.stdout}${lint.stderr}`.split('\n').filter(line => line !== '')
    expect(warnings.filter(line => !NOT_OURS.test(line))).toEqual([])
  })
})

describe('from the start, before the first request', () => {
  test.each([
    ['postern_http_requests_total{route="files",method="GET",code="503",source="gateway"} 0'],
    ['postern_http_requests_total{route="auth",method="GET",code="200",source="gateway"} 0'],
    ['postern_http_request_duration_seconds_count{route="workspace",code_class="2xx"} 0'],
    ['postern_auth_duration_seconds_count{tier="key_service"} 0'],
    ['postern_redis_command_duration_seconds_count{command="getrange"} 0'],
    ['postern_upstream_time_to_headers_seconds_count{upstream="default"} 0'],
    ['postern_upstream_requests_total{upstream="default",code="503"} 0'],
    ['postern_draining 0'],
  ])('a gateway shows %s', async line => {
    expect(sampleLike(await scrape(twin), line)).toEqual([line])
  })

  test.each([
    ['postern_admin_requests_total{operation="revoke",code="500"} 0'],
    ['postern_key_operations_total{operation="issue",outcome="failed"} 0'],
    ['postern_redis_commands_total{command="eval",outcome="error"} 0'],
    ['postern_keys{state="active"} 0'],
    ['postern_login_total{outcome="ok"} 0'],
    ['postern_login_total{outcome="limited"} 0'],
    ['postern_audit_write_failures_total 0'],
  ])('a console shows %s', async line => {
    expect(sampleLike(await scrape(world.console), line)).toEqual([line])
  })
})

test('a console exposes no metrics of requests, decisions and invalidations', async () => {
  const ours = lines(await scrape(world.console), 'postern_')
  expect(ours.filter(line => /^postern_(http|auth|upstream|key_cache|key_invalidation)/.test(line))).toEqual(
    [],
  )
})

test('replicas with the same settings expose the same hash, one with other settings another', async () => {
  const hashOf = async (gateway: Listening) =>
    /^postern_config_info\{plane="gateway",hash="([0-9a-f]{8})"\} 1$/m.exec(await scrape(gateway))?.[1]
  const [hash, same, different] = [await hashOf(world.gateway), await hashOf(twin), await hashOf(other)]
  expect(hash).toBeDefined()
  // The replicas differ only in the ports that they use.
  expect(same).toBe(hash)
  expect(different).not.toBe(hash)
})

test('requests in flight are those without a response', async () => {
  const key = await world.issue()
  const release = Promise.withResolvers<void>()
  world.upstream.hold = () => release.promise
  const client = new RawClient(twin.urls.gateway)
  client.send(get('/api/v1/workspaces/ws_1', key.secret))
  await expect.poll(() => scrape(twin)).toContain('\npostern_http_requests_in_flight 1\n')
  release.resolve()
  await client.answers(1)
  await expect.poll(() => scrape(twin)).toContain('\npostern_http_requests_in_flight 0\n')
  client.end()
})

test('the heap limit is plausible compared with the heap in use', async () => {
  const text = await scrape(twin)
  const value = (name: string) => Number(lines(text, `${name} `)[0]?.split(' ')[1])
  expect(value('postern_heap_limit_bytes')).toBeGreaterThan(value('nodejs_heap_size_used_bytes'))
})

test('two concurrent scrapes get the same response, with the content type for Prometheus', async () => {
  const answers = await Promise.all([1, 2].map(() => fetch(`${twin.urls.ops}/metrics`)))
  for (const answer of answers) {
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(lines(await answer.text(), 'postern_build_info{')).toHaveLength(1)
  }
})
