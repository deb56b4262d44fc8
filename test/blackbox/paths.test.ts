import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { BASE, NO_ROUTE, OTHER_WORKSPACE } from '../support/hostile-targets.ts'
import { exchange, fingerprint, get, type RawAnswer } from '../support/raw-client.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

let world: World
let key: IssuedKey
let nowhere: string

beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
  await world.issue({ workspaceId: 'ws_2' })
  nowhere = fingerprint(await send(get('/api/v1/nowhere', key.secret)))
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

const send = (bytes: string): Promise<RawAnswer> => exchange(world.gateway.urls.gateway, bytes)

describe('a path that is not exactly a route gets the same 404, with or without a key, and is not forwarded', () => {
  test.each(NO_ROUTE)('%s', async target => {
    expect(fingerprint(await send(get(target, key.secret)))).toBe(nowhere)
    expect(fingerprint(await send(get(target)))).toBe(nowhere)
    expect(world.upstream.requests).toEqual([])
  })
})

describe('every other workspace gets the same 404, however it is spelled, and so do its files', () => {
  test.each(OTHER_WORKSPACE)('%s', async name => {
    expect(fingerprint(await send(get(`${BASE}/${name}`, key.secret)))).toBe(nowhere)
    expect(fingerprint(await send(get(`${BASE}/${name}/files?limit=5`, key.secret)))).toBe(nowhere)
    // A client without a key learns nothing about any workspace.
    expect((await send(get(`${BASE}/${name}`))).status).toBe(401)
    expect(world.upstream.requests).toEqual([])
  })
})

test("raw control bytes in a target get a 400 in the gateway's format", async () => {
  for (const byte of ['\0', '\x01', '\x7f', '\t']) {
    const answer = await send(`GET ${BASE}/ws_1${byte} HTTP/1.1\r\nHost: gw\r\n\r\n`)
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([400, { code: 'invalid_request' }])
  }
  expect((await send(get('http://gw#/api/v1/auth', key.secret))).status).toBe(400)
  expect(world.upstream.requests).toEqual([])
})

test('non-ASCII bytes in a target never reach the upstream', async () => {
  for (const bytes of ['ws_1\xff', 'ws_1\xc0\xaf..', 'ws_1\xe2\x80\x8b']) {
    const answer = await send(get(`${BASE}/${bytes}`, key.secret))
    expect([400, 404]).toContain(answer.status)
    expect(answer.body).not.toContain('ws_1')
  }
  expect(world.upstream.requests).toEqual([])
})

test('the gateway works as before after all these paths', async () => {
  expect((await send(get(`${BASE}/ws_1`, key.secret))).status).toBe(200)
  expect(world.gateway.process.child.exitCode).toBeNull()
  expect(world.gateway.process.log.filter(line => Number(line['level']) >= 50)).toEqual([])
})
