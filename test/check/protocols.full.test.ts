import { describe, expect, test } from 'vitest'
import { headFor } from '../support/ambiguous-framing.ts'
import { type BehindProxy, FILES, FOLLOWING, PATH, PATIENCE_MS } from '../support/behind-proxy.ts'
import { CADDY_OVER_TLS } from '../support/check-proxies.ts'
import { BASE } from '../support/hostile-targets.ts'
import { type StreamRequest, sendOverHttp2 } from '../support/http2-client.ts'
import { sendOverHttp3 } from '../support/http3-client.ts'
import { absoluteTargets } from '../support/other-targets.ts'
import { get } from '../support/raw-client.ts'
import { has, PYTHON } from '../support/tools.ts'
import { describeEachProxy, INSTALL_MS, shareWorld, standBehind } from './behind-each-proxy.ts'

const OTHER = `${BASE}/ws_2`
const SMUGGLED = `GET ${OTHER} HTTP/1.1\r\nHost: gw\r\nX-Postern-Workspace-Id: ws_2\r\n\r\n`
/** Ends a test that hangs: all proxies share the processors. */
const CASES_MS = 600_000

const shared = shareWorld()

/** Trailers that a server could merge into the headers of its request. */
const trailers = () => ({ 'x-postern-workspace-id': 'ws_2', authorization: `Bearer ${shared().key.secret}` })
const trailerLines = () => `X-Postern-Workspace-Id: ws_2\r\nAuthorization: Bearer ${shared().key.secret}\r\n`

/** Bodies and trailers of a GET over HTTP/1.1. */
function bodies(): (readonly [name: string, bytes: string])[] {
  const head = (...lines: string[]) => headFor(shared().key.secret, ...lines)
  const chunk = `${SMUGGLED.length.toString(16)}\r\n${SMUGGLED}\r\n`
  const chunked = 'Transfer-Encoding: chunked'
  return [
    ['a body with its length', head(`Content-Length: ${SMUGGLED.length}`) + SMUGGLED],
    ['a body longer than its length', head('Content-Length: 5') + SMUGGLED],
    ['a body without a length', head() + SMUGGLED],
    ['a chunked body', `${head(chunked)}${chunk}0\r\n\r\n`],
    ['an empty chunked body', `${head(chunked)}0\r\n\r\n`],
    ['a chunked body and trailers', `${head(chunked)}${chunk}0\r\n${trailerLines()}\r\n`],
    ['trailers alone', `${head(chunked)}0\r\n${trailerLines()}\r\n`],
    [
      'announced trailers',
      `${head(chunked, 'TE: trailers', 'Trailer: X-Postern-Workspace-Id, Authorization')}0\r\n${trailerLines()}\r\n`,
    ],
    ['a body after an expectation', head('Expect: 100-continue', 'Content-Length: 5') + SMUGGLED],
    ['a body in HTTP/1.0', head('Content-Length: 5').replace('HTTP/1.1', 'HTTP/1.0') + SMUGGLED],
  ]
}

const asked = (path: string): StreamRequest => ({
  headers: { ':path': path, authorization: `Bearer ${shared().key.secret}` },
})

/** Bodies, trailers and targets of a client of HTTP/2 or HTTP/3. The requests of a case are sent at once, each on its own connection. */
function streamCases(): (readonly [name: string, ...requests: StreamRequest[]])[] {
  const headers = (path: string) => asked(path).headers
  const announced = { ...headers(PATH), te: 'trailers', trailer: 'x-postern-workspace-id, authorization' }
  const withLength = (length: number) => ({ ...headers(PATH), 'content-length': String(length) })
  return [
    ['a body without a length', { headers: headers(PATH), body: [SMUGGLED] }],
    ['a body in two frames', { headers: headers(PATH), body: [SMUGGLED, SMUGGLED] }],
    ['a body with its length', { headers: withLength(SMUGGLED.length), body: [SMUGGLED] }],
    ['a body longer than its length', { headers: withLength(0), body: [SMUGGLED] }],
    ['an empty frame', { headers: headers(PATH), body: [''] }],
    ['a body and trailers', { headers: headers(PATH), body: [SMUGGLED], trailers: trailers() }],
    ['trailers alone', { headers: headers(PATH), trailers: trailers() }],
    ['trailers and a length of 0', { headers: withLength(0), trailers: trailers() }],
    ['announced trailers', { headers: announced, trailers: trailers() }],
    ['announced trailers and a body', { headers: announced, body: [SMUGGLED], trailers: trailers() }],
    ['an expectation', { headers: { ...headers(PATH), expect: '100-continue' }, body: [SMUGGLED] }],
    ['another scheme', { headers: { ...headers(PATH), ':scheme': 'x' } }],
    ['an authority with a path', { headers: { ...headers(PATH), ':authority': `gw${OTHER}` } }],
    ['an authority with a user', { headers: { ...headers(PATH), ':authority': 'x@gw' } }],
    [
      'an authority and another host',
      { headers: { ...headers(PATH), ':authority': 'gw', host: `h${OTHER}` } },
    ],
    ['targets in absolute form', ...absoluteTargets(PATH, OTHER).map(path => ({ headers: headers(path) }))],
  ]
}

describeEachProxy(shared, (proxy, behind) => {
  test(
    'the upstream gets the target that was checked, also if the client writes it in absolute form',
    async () => {
      const targets = absoluteTargets(PATH, OTHER)
      const { faults, telling } = await behind().sendAll(
        targets.map(target => [target, get(target, shared().key.secret)]),
      )
      expect(faults).toEqual([])
      expect(telling).toBeGreaterThan(0)
    },
    CASES_MS,
  )

  test(
    'the upstream gets neither a body nor trailers of a GET',
    async () => {
      const { faults, telling } = await behind().sendAll(bodies())
      expect(faults).toEqual([])
      expect(telling).toBeGreaterThan(0)
    },
    CASES_MS,
  )

  test(
    'an upstream that switches protocols gives no client a connection past the gateway',
    async () => {
      behind().upstream.answer = request =>
        /^upgrade:/im.test(request)
          ? 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
          : 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'
      const upgrades = [
        ['Upgrade: websocket', 'Connection: Upgrade'],
        ['Upgrade: h2c'],
        ['Upgrade: websocket'],
      ]
      for (const upgrade of upgrades) {
        const { faults } = await behind().sendAll([
          [upgrade.join(), headFor(shared().key.secret, ...upgrade) + SMUGGLED],
        ])
        expect(faults).toEqual([])
      }
    },
    CASES_MS,
  )

  if (proxy.speaksHttp2 === true)
    test('the same holds over HTTP/2', () => expectNoFaults(behind(), sendOverHttp2), CASES_MS)
  else
    test('HTTP/2 without TLS is refused', async () => {
      const [outcome] = await sendOverHttp2(behind().url, [[asked(FILES)]], PATIENCE_MS)
      expect(outcome).not.toBe(200)
      expect(behind().upstream.requests).toEqual([])
    })
})

describe.skipIf(!has(CADDY_OVER_TLS.tool))('behind caddy with a host name, and so with TLS', () => {
  const behind = standBehind(CADDY_OVER_TLS, shared)

  test(
    'the upstream gets the checked target, and neither a body nor trailers, over HTTP/2',
    () => expectNoFaults(behind(), sendOverHttp2),
    CASES_MS,
  )

  test.skipIf(!has(PYTHON))('and over HTTP/3', () => expectNoFaults(behind(), sendOverHttp3), INSTALL_MS)
})

/** Sends the cases, each with a permitted request behind it on its connection. */
async function expectNoFaults(behind: BehindProxy, send: typeof sendOverHttp2): Promise<void> {
  const faults: string[] = []
  const outcomes: unknown[] = []
  for (const [name, ...requests] of streamCases()) {
    behind.upstream.forget()
    const connections = requests.map(request => [request, asked(FOLLOWING)])
    outcomes.push(...(await send(behind.url, connections, PATIENCE_MS)))
    faults.push(...behind.faults().map(fault => `${name}: ${fault}`))
  }
  expect(faults).toEqual([])
  // Otherwise nothing was forwarded, and no case would show anything.
  expect(outcomes.filter(outcome => outcome === 200).length).toBeGreaterThan(requestsIn(streamCases()) / 10)
}

const requestsIn = (cases: readonly (readonly unknown[])[]) =>
  cases.reduce((sum, one) => sum + one.length - 1, 0)
