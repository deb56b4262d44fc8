import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startPostern } from '../support/postern-process.ts'
import { exchange, fingerprint, get, RawClient } from '../support/raw-client.ts'
import { jsonAnswer, rawAnswer } from '../support/recording-upstream.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const BASE = '/api/v1/workspaces'
/** Responses are compared one connection at a time, each with the first. */
const BATCH = 100
const PAIRS = 2_000
let world: World
let key: IssuedKey
let narrow: IssuedKey

beforeAll(async () => {
  world = await startWorld({ POSTERN_LOG_LEVEL: 'warn' })
  key = await world.issue()
  narrow = await world.issue({ scopes: ['workspace:read'] })
  await world.issue({ workspaceId: 'ws_2' })
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

async function answersTo(targets: readonly string[], secret: string): Promise<string[]> {
  const client = new RawClient(world.gateway.urls.gateway)
  client.send(targets.map(target => get(target, secret)).join(''))
  const answers = await client.answers(targets.length)
  client.end()
  expect(answers).toHaveLength(targets.length)
  return answers.map(fingerprint)
}

test(`${PAIRS} pairs of an existing and a missing workspace get the same bytes, with headers in the same order`, async () => {
  const targets = Array.from({ length: BATCH }, (_, index) => `${BASE}/${index % 2 === 0 ? 'ws_2' : 'ws_Z'}`)
  const seen = new Set<string>()
  for (let sent = 0; sent < 2 * PAIRS; sent += BATCH) {
    for (const answer of await answersTo(targets, key.secret)) seen.add(answer)
  }
  expect(seen.size).toBe(1)
  expect(world.upstream.requests).toEqual([])
})

test('another workspace is the same 404 for every missing scope and every query', async () => {
  const targets = ['', '/files', '/files?limit=x', '/files?limit=5', '?x=1'].flatMap(more => [
    `${BASE}/ws_2${more}`,
    `${BASE}/ws_Z${more}`,
  ])
  const nowhere = fingerprint(await exchange(world.gateway.urls.gateway, get('/nowhere', key.secret)))
  for (const secret of [key.secret, narrow.secret])
    expect(new Set(await answersTo(targets, secret))).toEqual(new Set([nowhere]))
})

test("repeated requests, also after the workspace's own key has used the path, change nothing: no response is cached by path", async () => {
  const owner = await world.issue({ workspaceId: 'ws_2' })
  const foreign = async () => (await answersTo([`${BASE}/ws_2`], key.secret))[0]
  const before = await foreign()
  expect((await exchange(world.gateway.urls.gateway, get(`${BASE}/ws_2`, owner.secret))).status).toBe(200)
  expect(await foreign()).toBe(before)
  const after = await exchange(world.gateway.urls.gateway, get(`${BASE}/ws_2`))
  expect(after.status).toBe(401)
})

test("the upstream's own 404 of a deleted workspace looks the same to a key of that workspace", async () => {
  const linesOf = async (target: string) =>
    fingerprint(await exchange(world.gateway.urls.gateway, get(target, key.secret)))
      .split(/\r?\n/)
      .sort()
  const nowhere = await linesOf('/nowhere')
  for (const answer of [
    jsonAnswer(404, '{"code":"gone","error":"Deleted yesterday"}'),
    rawAnswer(404, 'x'.repeat(70_000), 'ETag: "gone"', 'Retry-After: 9'),
  ]) {
    world.upstream.answer = () => answer
    expect(await linesOf(`${BASE}/ws_1`)).toEqual(nowhere)
  }
})

test('no header outside the allow-list changes a response, so a cache in front cannot be poisoned', async () => {
  const plain = fingerprint(await exchange(world.gateway.urls.gateway, get(`${BASE}/ws_2`, key.secret)))
  for (const line of [
    'X-Forwarded-Host: evil',
    'X-Forwarded-Proto: https',
    'X-Original-URL: /api/v1/auth',
    'X-Rewrite-URL: /api/v1/auth',
    'X-HTTP-Method-Override: POST',
    'Accept: text/html',
    'Origin: https://evil',
    'Range: bytes=0-3',
  ]) {
    const answer = await exchange(world.gateway.urls.gateway, get(`${BASE}/ws_2`, key.secret, line))
    expect([line, fingerprint(answer)]).toEqual([line, plain])
  }
})

test('rate limits reveal nothing: they apply after the workspace check, and not to another workspace', async () => {
  const policies = [{ name: 'few', per: 'workspace', requests: 3, windowSeconds: 60 }]
  const limited = await startPostern('gateway', {
    ...world.env,
    POSTERN_LIMITS_POLICIES: JSON.stringify(policies),
  })
  const send = async (target: string) =>
    fingerprint(await exchange(limited.urls.gateway, get(target, key.secret)))
  const nowhere = await send('/nowhere')
  const seen = new Set<string>()
  for (let count = 0; count < 5; count++) {
    for (const name of ['ws_2', 'ws_Z']) seen.add(await send(`${BASE}/${name}`))
    await send(`${BASE}/ws_1`)
  }
  expect(await send(`${BASE}/ws_1`)).toMatch(/^HTTP\/1\.1 429 /)
  for (const name of ['ws_2', 'ws_Z']) seen.add(await send(`${BASE}/${name}`))
  expect(seen).toEqual(new Set([nowhere]))
  await limited.process.stop()
})
