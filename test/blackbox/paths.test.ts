import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { exchange, fingerprint, get, type RawAnswer } from '../support/raw-client.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const BASE = '/api/v1/workspaces'
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

/** Other servers may normalise these to another path, or they are no routes: rejected before the key is read. */
const NO_ROUTE = [
  `${BASE}/ws_1/%2e%2e/ws_2`,
  `${BASE}/ws_1/.%2E/ws_2`,
  `${BASE}/ws_1%2f..%2fws_2`,
  `${BASE}/ws_1%2F%2e%2e%2Fws_2`,
  `${BASE}/ws_1%5c..%5cws_2`,
  `${BASE}/ws_1\\..\\ws_2`,
  `${BASE}/.`,
  `${BASE}/%2e`,
  `${BASE}/%252e%252e`,
  `${BASE}/ws_1%252f..%252fws_2`,
  `${BASE}/ws_1/%25252e%25252e/ws_2`,
  `${BASE}/ws_1%25%32%66files`,
  `${BASE}//ws_1`,
  '//api/v1/workspaces/ws_1',
  '/api//v1/workspaces/ws_1',
  `${BASE}/ws_1/`,
  `${BASE}/ws_1;x=1`,
  `${BASE}/ws_1;/../ws_2`,
  `${BASE}/..;/ws_2`,
  `${BASE}/ws_1%00`,
  `${BASE}/ws_1%09`,
  `${BASE}/ws_1%0d%0aX:1`,
  '/%61pi/v1/workspaces/ws_1',
  `${BASE}/ws_1/%66iles`,
  '/API/v1/workspaces/ws_1',
  '/api/V1/workspaces/ws_1',
  `${BASE}/ws_1#x`,
  `${BASE}/ws_1#/../ws_2`,
  `${BASE}/ws_1/files#?limit=1`,
  '/api/v1/auth#',
  'http://gw?x=/api/v1/auth',
  'http://gw/api/v1/auth',
  'HTTP://gw/api/v1/auth',
  'http://evil/api/v1/workspaces/ws_1',
  `${BASE}/ws_1%2ffiles`,
  `${BASE}/ws_1/FILES`,
  `${BASE}/ws_1/files.json`,
  `${BASE}/ws_1/files/x.css`,
  `${BASE}/../../internal`,
  '/api/v1/../../admin',
  '/',
  '/metrics',
  '/livez',
  '/readyz',
  '/healthz',
  '/admin',
  '/admin/v1/workspaces/ws_1/keys',
  '/internal/v1/keys/x',
  '*',
]

/** A single segment for every server, but not the key's workspace. */
const OTHER_WORKSPACE = [
  'ws_2',
  'ws_Z',
  'ws_1%3bjsessionid=1',
  'ws_1%c0%af..%c0%afws_2',
  'ws_1%e0%80%afx',
  'ws_1%f0%80%80%afx',
  '%77s_1',
  'ws_%EF%BC%91',
  '%E2%84%AA',
  'ws_1%C2%AD',
  'WS_1',
  'ws_1%20',
  '%20ws_1',
  'ws_1%E2%80%8B',
  'ws_1%EF%BB%BF',
  'ws_1%',
  'ws_1%2',
  '%zz',
  'ws_1%u002f',
  'ws_1.css',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '%2a',
  'ws_1,ws_2',
  '{ws_1}',
  'ws_1%7Cws_2',
  'ws_1+ws_2',
  '-',
  'me',
  'default',
  'ws_1%3flimit=9',
  'ws_1%26',
  'w'.repeat(5000),
]

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
