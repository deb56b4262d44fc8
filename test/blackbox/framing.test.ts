import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { AMBIGUOUS, headFor } from '../support/ambiguous-framing.ts'
import { exchange, field, get, RawClient } from '../support/raw-client.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

let world: World
let key: IssuedKey
const WORKSPACE = '/api/v1/workspaces/ws_1'

beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

const head = (...lines: string[]) => headFor(key.secret, ...lines)

/** Sends bytes and, on the same connection, a valid request, in front of which a smuggled one would appear. */
async function sendWithMarker(bytes: string) {
  const client = new RawClient(world.gateway.urls.gateway)
  client.send(bytes + get(`${WORKSPACE}/files?limit=7`, key.secret))
  return client.untilClosed()
}

describe('ambiguous framing is rejected, the connection closes, and the upstream receives nothing', () => {
  test.each(AMBIGUOUS)('%s', async (_name, bytes, status) => {
    const answers = await sendWithMarker(bytes(key.secret))
    expect(answers.map(answer => answer.status)).toEqual([status])
    const [answer] = answers
    expect(JSON.parse(answer?.body ?? '')).toEqual({
      code: status === 400 || status === 417 ? 'invalid_request' : 'request_too_large',
      error: expect.not.stringMatching(/\.$/),
    })
    expect(answer && field(answer, 'connection')).toBe('close')
    expect(answer && field(answer, 'x-request-id')).toBeDefined()
    expect(world.upstream.requests).toEqual([])
  })
})

describe('valid requests are served', () => {
  test('100 header fields', async () => {
    const answer = await exchange(
      world.gateway.urls.gateway,
      head(...Array.from({ length: 98 }, (_, index) => `X-${index}: y`)),
    )
    expect(answer.status).toBe(200)
  })

  test('a request that arrives one byte at a time', async () => {
    const client = new RawClient(world.gateway.urls.gateway)
    for (const byte of head()) {
      client.send(byte)
      await new Promise(resolve => setImmediate(resolve))
    }
    expect((await client.answers(1)).map(answer => answer.status)).toEqual([200])
    client.end()
  })

  test('HTTP/1.0, and a length of 0', async () => {
    expect((await exchange(world.gateway.urls.gateway, head().replace('HTTP/1.1', 'HTTP/1.0'))).status).toBe(
      200,
    )
    expect((await exchange(world.gateway.urls.gateway, head('Content-Length: 0'))).status).toBe(200)
  })

  test('a request split at any position is handled like one that arrives whole', async () => {
    const whole = head('Accept: application/json')
    const cuts = Array.from({ length: whole.length - 1 }, (_, index) => index + 1)
    const client = new RawClient(world.gateway.urls.gateway)
    for (const [count, cut] of cuts.entries()) {
      client.send(whole.slice(0, cut))
      await new Promise(resolve => setImmediate(resolve))
      client.send(whole.slice(cut))
      const answers = await client.answers(count + 1)
      expect([cut, answers.at(-1)?.status]).toEqual([cut, 200])
    }
    client.end()
    expect(new Set(world.upstream.requests.map(withoutId)).size).toBe(1)
    expect(world.upstream.requests).toHaveLength(cuts.length)
  })

  test('a few empty lines before a request are skipped; a hundred thousand do no harm', async () => {
    expect((await exchange(world.gateway.urls.gateway, `\r\n\r\n${head()}`)).status).toBe(200)
    const client = new RawClient(world.gateway.urls.gateway)
    client.send('\r\n'.repeat(100_000) + head())
    const [answer] = await client.answers(1)
    expect([200, 400, 431]).toContain(answer?.status)
    client.end()
    expect((await exchange(world.gateway.urls.gateway, head())).status).toBe(200)
  })

  test('header fields of 16 KiB in total are accepted, one byte more is rejected', async () => {
    const lines = head('X: ').trimEnd().split('\r\n').slice(1)
    const length = lines.reduce((sum, line) => sum + line.trimEnd().length + (line === 'X:' ? 3 : 2), 0)
    const withValue = (extra: number) => head(`X: ${'a'.repeat(16 * 1024 - length + extra)}`)
    expect((await exchange(world.gateway.urls.gateway, head(`X: ${'a'.repeat(8192)}`))).status).toBe(200)
    const statuses = [-1, 0, 1, 2].map(
      async extra => (await exchange(world.gateway.urls.gateway, withValue(extra))).status,
    )
    expect(await Promise.all(statuses)).toEqual([200, 200, 431, 431])
  })

  test('50 pipelined requests for two alternating workspaces are answered in order', async () => {
    const client = new RawClient(world.gateway.urls.gateway)
    const targets = Array.from({ length: 50 }, (_, index) =>
      index % 2 === 0 ? WORKSPACE : '/api/v1/workspaces/ws_2',
    )
    client.send(targets.map(target => get(target, key.secret)).join(''))
    const answers = await client.answers(50)
    client.end()
    expect(answers.map(answer => answer.status)).toEqual(
      targets.map(target => (target === WORKSPACE ? 200 : 404)),
    )
    expect(world.upstream.requests).toHaveLength(25)
  })

  test('malformed bytes after a valid request do not affect its response', async () => {
    const client = new RawClient(world.gateway.urls.gateway)
    client.send(`${head()}\x00\x01 broken\r\n\r\n`)
    expect((await client.untilClosed()).map(answer => answer.status)).toEqual([200, 400])
  })
})

/** Removes what may differ between two forwarded requests. */
function withoutId(request: string): string {
  return request.replace(/^x-request-id: .*$/im, '')
}

test('CONNECT matches no route', async () => {
  const answer = await exchange(
    world.gateway.urls.gateway,
    'CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n',
  )
  expect([answer.status, (JSON.parse(answer.body) as { code: string }).code]).toEqual([404, 'not_found'])
})

test('other methods get the same response for every workspace', async () => {
  for (const method of ['HEAD', 'OPTIONS', 'POST', 'DELETE', 'TRACE', 'PUT', 'PATCH', 'PROPFIND', 'QUERY']) {
    const answers = await Promise.all(
      ['ws_1', 'ws_2', 'ws_Z'].map(async id => {
        const client = new RawClient(world.gateway.urls.gateway)
        const fields = `Host: gw\r\nAuthorization: Bearer ${key.secret}\r\nX-Reflect: canary\r\nConnection: close`
        client.send(`${method} /api/v1/workspaces/${id} HTTP/1.1\r\n${fields}\r\n\r\n`)
        await client.untilClosed()
        return client.received.toString('latin1').replace(/^(date|x-request-id): .*$/gim, '$1: -')
      }),
    )
    expect(new Set(answers).size).toBe(1)
    expect(answers[0]).toMatch(/^HTTP\/1\.1 405 Method Not Allowed\r\n/)
    expect(answers[0]).not.toContain('canary')
  }
  expect(world.upstream.requests).toEqual([])
})
