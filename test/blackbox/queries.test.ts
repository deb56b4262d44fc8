import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { AMBIGUOUS_QUERIES } from '../support/hostile-targets.ts'
import { exchange, get, type RawAnswer } from '../support/raw-client.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const FILES = '/api/v1/workspaces/ws_1/files'
let world: World
let key: IssuedKey

beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

const send = (target: string): Promise<RawAnswer> =>
  exchange(world.gateway.urls.gateway, get(target, key.secret))
const targetsSeen = () => world.upstream.requests.map(request => request.split(' ')[1])

describe('an ambiguous query gets a 400 and is not forwarded', () => {
  test.each(AMBIGUOUS_QUERIES)('%s', async query => {
    const answer = await send(FILES + query)
    expect([answer.status, (JSON.parse(answer.body) as { code: string }).code]).toEqual([
      400,
      'invalid_request',
    ])
    // The response does not repeat the query. Four digits alone may occur in a request id.
    expect(answer.head + answer.body).not.toMatch(/ws_2|9{9}|9007199254740993|__proto__|%0d/)
    expect(world.upstream.requests).toEqual([])
  })
})

test('a query longer than the URL limit gets a 414', async () => {
  expect((await send(`${FILES}?${'a'.repeat(15_000)}`)).status).toBe(414)
  expect(world.upstream.requests).toEqual([])
})

test('a bare question mark counts as no query, and the upstream applies its own default', async () => {
  expect((await send(`${FILES}?`)).status).toBe(200)
  expect((await send(`${FILES}?limit=1000`)).status).toBe(200)
  expect(targetsSeen()).toEqual([FILES, `${FILES}?limit=1000`])
})

test('no query parameter changes the workspace that the gateway forwards', async () => {
  for (const query of ['?workspace=ws_2', '?workspaceId=ws_2', '?limit=5']) {
    expect((await send(`/api/v1/auth${query}`)).status).toBe(400)
    expect((await send(`/api/v1/workspaces/ws_1${query}`)).status).toBe(400)
  }
  expect(world.upstream.requests).toEqual([])
})
