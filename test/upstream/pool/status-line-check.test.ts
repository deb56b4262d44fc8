import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { StatusLineCheck } from '../../../src/upstream/pool/connection.ts'
import { makeCertificates } from '../../support/certificates.ts'
import {
  type ForwardingApp,
  metricSum,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../../support/forwarding-app.ts'
import { get } from '../../support/http-client.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../../support/scripted-upstream.ts'

const EARLY = 'HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n'
const valid = json('{}')
const valid10 = valid.replace('HTTP/1.1', 'HTTP/1.0')
const foreign = [
  ...['HTTP/2.0', 'HTTP/0.9', 'HTTP/1.2', 'HTTP/11.1', 'HTTP/1.11', 'ICE/1.0', 'RTSP/1.0', 'http/1.1'],
  ...['HTTP/1.1\t', '\r\nHTTP/1.1', ' HTTP/1.1'],
].map(version => valid.replace('HTTP/1.1', version))
const bareCr = ['200 OK\r\r', '200 OK\r\rETag: "1"\r\n', '200\r\r', '200 OK\rETag: "1"\r\n'].map(line =>
  valid.replace('200 OK\r\n', line),
)
const afterInterim = foreign.map(bytes => EARLY + bytes)

describe('a response that is split at any position', () => {
  const check = new StatusLineCheck()
  const accepted = (bytes: string, cut: number) => {
    check.expect()
    return check.accepts(Buffer.from(bytes.slice(0, cut))) && check.accepts(Buffer.from(bytes.slice(cut)))
  }
  const verdictsOf = (bytes: string) =>
    new Set(Array.from({ length: bytes.length }, (_, cut) => accepted(bytes, cut)))

  test.each([valid, valid10, EARLY + EARLY + valid, `HTTP/1.1 102 W\r\nA: b\rc\r\n\r\n${valid}`])(
    'is accepted with HTTP/1.0 and 1.1: %j',
    bytes => expect(verdictsOf(bytes)).toEqual(new Set([true])),
  )

  test.each([...bareCr, EARLY.replace('\r\n', '\r\r') + valid])(
    'is rejected if CR alone ends its status line: %j',
    bytes => expect(verdictsOf(bytes)).toEqual(new Set([false])),
  )

  test.each([...foreign, ...afterInterim, `HTTP/1.1 103 Early\n\n${foreign[0]}`])(
    'is rejected with another protocol: %j',
    bytes => expect(verdictsOf(bytes)).toEqual(new Set([false])),
  )

  test('may hold a status line in its body', () => {
    check.expect()
    expect(check.accepts(Buffer.from(json(`"${foreign[0]}"`) + foreign[0]))).toBe(true)
    expect(check.accepts(Buffer.from(foreign[0] ?? ''))).toBe(true)
  })
})

const certificates = await makeCertificates()
const open: { stop(): Promise<void> }[] = []
afterEach(async () => {
  for (const part of open.splice(0).reverse()) await part.stop()
})
afterAll(() => certificates.remove())

describe.each([
  { over: 'plain TCP', server: undefined, tls: {} },
  { over: 'TLS', server: certificates.server, tls: { caFile: certificates.caFile } },
])('over $over', ({ server, tls }) => {
  async function start(
    script: Parameters<typeof startScriptedUpstream>[0],
  ): Promise<[ScriptedUpstream, ForwardingApp]> {
    const upstream = await startScriptedUpstream(script, server)
    const gateway = await startForwardingApp(upstream.url, { tls, connections: 1 })
    open.push(upstream, gateway)
    return [upstream, gateway]
  }

  test('a response of another protocol than HTTP/1.x is a 502, and the connection closes', async () => {
    const cases = [...foreign, ...afterInterim, ...bareCr]
    const [upstream, gateway] = await start(request => request.send(cases[request.number] ?? ''))
    for (const [index, bytes] of cases.entries()) {
      const response = await get(gateway.port, WORKSPACE_PATH)
      expect([bytes, response.status, response.text]).toEqual([
        bytes,
        502,
        '{"code":"upstream_error","error":"Refused"}',
      ])
      await upstream.disconnected(index + 1)
    }
    // Each request was sent once: none of the connections counted as stale.
    expect(upstream.requests).toHaveLength(cases.length)
    const kind = 'protocol'
    expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', { kind })).toBe(cases.length)
  })

  test('the second response of a connection is checked as well', async () => {
    const [upstream, gateway] = await start(request =>
      request.send(request.number === 1 ? (foreign[0] ?? '') : valid),
    )
    const statuses = []
    for (let count = 0; count < 3; count++) statuses.push((await get(gateway.port, WORKSPACE_PATH)).status)
    expect(statuses).toEqual([200, 502, 200])
    expect(upstream.requests.map(({ connection }) => connection)).toEqual([0, 0, 1])
  })

  test('a valid response that arrives byte by byte after interim responses passes', async () => {
    const body = JSON.stringify('HTTP/2.0 200 OK\r\n'.repeat(9000))
    const [upstream, gateway] = await start(request => {
      if (request.number === 2) request.send(EARLY, EARLY, json(body))
      else for (const byte of EARLY + (request.number === 0 ? valid : valid10)) request.send(byte)
    })
    for (const text of ['{}', '{}', body]) {
      expect(await get(gateway.port, WORKSPACE_PATH)).toMatchObject({ status: 200, text, complete: true })
    }
    expect(upstream.requests).toHaveLength(3)
  })
})
