import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { importSigningSecret, mintSecret } from '../../../src/domain/key/secret.ts'
import { sendPipelined } from '../../support/pipelined-load.ts'
import { get, RawClient } from '../../support/raw-client.ts'
import { jsonAnswer } from '../../support/recording-upstream.ts'
import { runs } from '../../support/runs.ts'
import { startWorld, type World } from '../../support/world.ts'

const REQUESTS = runs(20_000, 100_000)
const BUDGET = 2_000
/** Twenty routes instead of the defaults. */
const ROUTES = {
  auth: null,
  workspace: null,
  files: null,
  ...Object.fromEntries(
    Array.from({ length: 20 }, (_, index) => [
      `route-${index}`,
      { path: `/api/v${index}/workspaces/{workspaceId}` },
    ]),
  ),
}
/** Every status that clients may get, and some that they may not. */
/** The maximum number of policies, none of which is ever exceeded. */
const POLICIES = Array.from({ length: 16 }, (_, index) => ({
  name: `policy-${index}`,
  per: 'key',
  route: `route-${index}`,
  requests: 1_000_000,
  windowSeconds: 3600,
}))
const UPSTREAM_STATUSES = [200, 201, 204, 304, ...Array.from({ length: 52 }, (_, n) => 400 + n), 500, 503]
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'QUERY', 'REPORT']

/** The maximum number of named workspaces. The keys below belong to others. */
const NAMED_WORKSPACES = Array.from({ length: 50 }, (_, index) => `team-${index}`).join(',')

let world: World
beforeAll(async () => {
  world = await startWorld({
    POSTERN_ROUTES: JSON.stringify(ROUTES),
    POSTERN_METRICS_WORKSPACES: NAMED_WORKSPACES,
    POSTERN_LIMITS_POLICIES: JSON.stringify(POLICIES),
    POSTERN_LOG_LEVEL: 'warn',
  })
})
afterAll(() => world.stop())

const scrape = async () => (await fetch(`${world.gateway.urls.ops}/metrics`)).text()
const seriesOf = (text: string) => text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
const anyOf = <Item>(items: readonly Item[]): Item => items[Math.floor(Math.random() * items.length)] as Item
const word = () => Math.random().toString(36).slice(2)

test(`${REQUESTS} random paths, methods, keys and agents leave fewer than ${BUDGET} series, and no trace`, async () => {
  const good = await Promise.all(Array.from({ length: 5 }, () => world.issue()))
  const revoked = await world.issue()
  await world.revoke(revoked.id)
  const signingKey = importSigningSecret(
    Buffer.from(world.env['POSTERN_KEYS_SIGNING_SECRETS'] ?? '', 'base64'),
  )
  const unknown = () => mintSecret('wsk_', randomBytes(32), signingKey).reveal()
  world.upstream.answer = () => {
    world.upstream.requests.length = 0
    return jsonAnswer(anyOf(UPSTREAM_STATUSES), '{"id":"x"}')
  }

  const path = () => `/api/v${Math.floor(Math.random() * 20)}/workspaces/${anyOf(['ws_1', word()])}`
  const noise = () => [`User-Agent: canary-${word()}`, `X-${word()}: canary-${word()}`]
  const kinds = [
    () => get(`/canary-${word()}/${word()}`, anyOf(good).secret, ...noise()),
    () => get(`${path()}?${word()}=canary`, anyOf(good).secret, ...noise()),
    () => get(path(), `wsk_canary${word()}`, ...noise()),
    () => get(path(), undefined, ...noise()),
    () => get(path(), anyOf([...good, revoked]).secret, ...noise()),
    () => get(path(), anyOf(good).secret, ...noise()).replace('GET', anyOf(METHODS)),
  ]
  const request = (index: number) =>
    index % 50 === 0 ? get(path(), unknown(), ...noise()) : (kinds[index % kinds.length]?.() ?? '')

  const startedAtMs = performance.now()
  const statuses = await sendPipelined(world.gateway.urls.gateway, REQUESTS, request)
  const seconds = (performance.now() - startedAtMs) / 1000
  // Requests that close their connection, each on one of its own.
  for (let index = 0; index < 100; index++) {
    const client = new RawClient(world.gateway.urls.gateway)
    const broken = [`${word()} / HTTP/1.1\r\n\r\n`, 'GET / HTTP/1.1\r\n\r\n', get(`/${'x'.repeat(9000)}`)]
    client.send(`${broken[index % broken.length]}`)
    await client.answers(1)
    client.end()
  }

  const text = await scrape()
  const series = seriesOf(text)
  const answers = [...statuses.values()].reduce((sum, count) => sum + count, 0)
  process.stdout.write(
    `\n${answers} requests in ${seconds.toFixed(1)} s (statuses ${[...statuses.keys()].sort().join(', ')}): ${series.length} series, ${text.length} bytes\n`,
  )
  expect(answers).toBe(REQUESTS)
  expect(series.length).toBeLessThan(BUDGET)
  expect(text).not.toMatch(/canary|ws_1|wsk_|key_[0-9A-Z]{26}/)
  for (const key of good) expect(text).not.toContain(key.id)

  // There are series for the named workspaces, and one for all others.
  const workspaces = series.filter(line => line.startsWith('postern_workspace_requests_total{'))
  expect(workspaces).toHaveLength(51)
  expect(workspaces.find(line => line.includes('"other"'))).not.toMatch(/ 0$/)
  expect(text).toContain('\npostern_workspace_series_folded 1\n')

  // Every request was counted once.
  const total = series
    .filter(line => line.startsWith('postern_http_requests_total{'))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
  expect(total).toBe(REQUESTS + 100)
})
