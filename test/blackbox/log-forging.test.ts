import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { LogLine } from '../support/postern-process.ts'
import { exchange, get, RawClient } from '../support/raw-client.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
let world: World
let key: IssuedKey

beforeAll(async () => {
  world = await startWorld({ POSTERN_LOG_LEVEL: 'trace' })
  key = await world.issue()
})
afterAll(() => world.stop())

/** Log lines written for what `send` sends, up to and including the line of a final marker request. */
async function linesFor(id: string, send: () => Promise<unknown>): Promise<string[]> {
  const { process: gateway } = world.gateway
  const before = gateway.lines.length
  await send()
  await exchange(world.gateway.urls.gateway, get('/api/v1/auth', key.secret, `X-Request-Id: ${id}`))
  await gateway.logged(line => line['requestId'] === id)
  return gateway.lines.slice(before)
}

/** Only request lines: on a slow machine the gateway also logs timeouts of Redis. */
function requestsIn(lines: readonly string[]): LogLine[] {
  return lines.map(line => JSON.parse(line) as LogLine).filter(line => line['msg'] === 'request')
}

const FORGERY = '{"level":50,"msg":"forged"}'
const hostile: [name: string, text: string][] = [
  ['a line break and a log line', `x%0d%0a${FORGERY}`],
  ['quotes and braces', `x"},${FORGERY},{"a":"`],
  ['a terminal escape sequence', 'x%1b[2J'],
  ['raw bytes beyond ASCII', 'x\xff\xfe\xe2\x80\xa8'],
  ['a lookup for log servers', `$\{jndi:ldap://127.0.0.1/a}`],
  ['a template', '{{7*7}}%s%n%d'],
]

describe("each request writes one JSON log line in the gateway's format, with hostile text escaped", () => {
  test.each(hostile)('%s, in every field', async (name, text) => {
    const everywhere = [
      `User-Agent: ${text}`,
      `X-Request-Id: ${text}`,
      `Accept: ${text}`,
      `Referer: ${text}`,
      `X-Forwarded-For: ${text}`,
      `traceparent: ${text}`,
      `tracestate: ${text}`,
      `Cookie: ${text}`,
    ]
    const lines = await linesFor(`after-${hostile.findIndex(([other]) => other === name)}`, async () => {
      await exchange(world.gateway.urls.gateway, get(WORKSPACE, key.secret, ...everywhere))
      await exchange(world.gateway.urls.gateway, get(`${WORKSPACE}/${text.replaceAll(' ', '')}`, key.secret))
      await exchange(world.gateway.urls.gateway, get('/api/v1/auth', text.replaceAll(' ', '')))
      const client = new RawClient(world.gateway.urls.gateway)
      client.send(`${text} / HTTP/1.1\r\nHost: gw\r\n\r\n`)
      await client.untilClosed()
    })
    expect(requestsIn(lines)).toHaveLength(5)
    for (const line of lines) {
      // Printable ASCII and the characters of key hints: no line break, escape sequence or direction mark.
      expect(line).toMatch(/^[\x20-\x7e…]+$/)
      expect(line).not.toMatch(/jndi|forged|7\*7|\[2J/)
    }
  })

  test('raw control bytes in header values are rejected and not logged', async () => {
    const statuses: number[] = []
    const lines = await linesFor('after-control', async () => {
      for (const byte of ['\x1b[2J', '\x07', '\x00', '\x7f']) {
        const request = get(WORKSPACE, key.secret, `User-Agent: a${byte}b`)
        statuses.push((await exchange(world.gateway.urls.gateway, request)).status)
      }
    })
    expect(statuses).toEqual([400, 400, 400, 400])
    for (const line of lines) expect(line).toMatch(/^[\x20-\x7e…]+$/)
  })

  test("text in an upstream's status line, headers or errors cannot add log lines", async () => {
    const lines = await linesFor('after-upstream', async () => {
      for (const bytes of [
        `HTTP/1.1 200 ${FORGERY}\r\nContent-Length: 0, 1\r\n\r\n`,
        jsonAnswer(500, FORGERY, `X: ${FORGERY}`),
        jsonAnswer(409, `{"code":"forged","error":"forged\\n${'x'.repeat(100)}"}`),
        `${FORGERY}\r\n\r\n`,
      ]) {
        world.upstream.answer = () => bytes
        await exchange(world.gateway.urls.gateway, get(WORKSPACE, key.secret))
      }
      world.upstream.reset()
    })
    expect(requestsIn(lines)).toHaveLength(5)
    expect(lines.join('')).not.toContain('forged')
  })

  test('a nearly empty request is logged like any other', async () => {
    const lines = await linesFor('after-little', async () => {
      const client = new RawClient(world.gateway.urls.gateway)
      client.send('GET / HTTP/1.0\r\n\r\n')
      await client.untilClosed()
    })
    expect(requestsIn(lines)[0]).toMatchObject({ status: 400, reason: 'malformed_request' })
  })
})
