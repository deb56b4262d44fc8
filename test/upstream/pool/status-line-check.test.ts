import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { StatusLineCheck } from '../../../src/upstream/pool/status-line-check.ts'
import { makeCertificates } from '../../support/certificates.ts'
import {
  type ForwardingApp,
  metricValue,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../../support/forwarding-app.ts'
import { get } from '../../support/http-client.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../../support/scripted-upstream.ts'

const EARLY = 'HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n'
const lawful = json('{}')
const lawful10 = lawful.replace('HTTP/1.1', 'HTTP/1.0')
const foreign = [
  ...['HTTP/2.0', 'HTTP/0.9', 'HTTP/1.2', 'HTTP/11.1', 'HTTP/1.11', 'ICE/1.0', 'RTSP/1.0', 'http/1.1'],
  ...['HTTP/1.1\t', '\r\nHTTP/1.1', ' HTTP/1.1'],
].map(version => lawful.replace('HTTP/1.1', version))
const behindInterim = foreign.map(bytes => EARLY + bytes)

describe('every way to cut a response into two', () => {
  const check = new StatusLineCheck()
  const accepted = (bytes: string, cut: number) => {
    check.expect()
    return check.accepts(Buffer.from(bytes.slice(0, cut))) && check.accepts(Buffer.from(bytes.slice(cut)))
  }
  const verdictsOf = (bytes: string) =>
    new Set(Array.from({ length: bytes.length }, (_, cut) => accepted(bytes, cut)))

  test.each([lawful, lawful10, EARLY + EARLY + lawful, `HTTP/1.1 102 W\r\nA: b\rc\r\n\r\n${lawful}`])(
    'leaves HTTP/1.0 and 1.1 accepted: %j',
    bytes => expect(verdictsOf(bytes)).toEqual(new Set([true])),
  )

  test.each([...foreign, ...behindInterim, `HTTP/1.1 103 Early\n\n${foreign[0]}`])(
    'leaves another protocol refused: %j',
    bytes => expect(verdictsOf(bytes)).toEqual(new Set([false])),
  )

  test('and what stands in a body is no status line', () => {
    check.expect()
    expect(check.accepts(Buffer.from(json(`"${foreign[0]}"`) + foreign[0]))).toBe(true)
    expect(check.accepts(Buffer.from(foreign[0] ?? ''))).toBe(true)
  })
})

const certificates = makeCertificates()
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

  test('a response of another protocol than HTTP/1.x is a 502, and its connection ends', async () => {
    const cases = [...foreign, ...behindInterim]
    const [upstream, gateway] = await start(request => request.send(cases[request.number] ?? ''))
    for (const [index, bytes] of cases.entries()) {
      const answer = await get(gateway.port, WORKSPACE_PATH)
      expect([bytes, answer.status, answer.text]).toEqual([
        bytes,
        502,
        '{"code":"upstream_error","error":"Refused"}',
      ])
      await upstream.disconnected(index + 1)
    }
    // Each was sent once, and none was taken for a connection that had gone stale.
    expect(upstream.requests).toHaveLength(cases.length)
    const kind = 'protocol'
    expect(await metricValue(gateway.metrics, 'postern_upstream_errors_total', { kind })).toBe(cases.length)
  })

  test('the second response of a kept connection is held to it as well', async () => {
    const [upstream, gateway] = await start(request =>
      request.send(request.number === 1 ? (foreign[0] ?? '') : lawful),
    )
    const statuses = []
    for (let asked = 0; asked < 3; asked++) statuses.push((await get(gateway.port, WORKSPACE_PATH)).status)
    expect(statuses).toEqual([200, 502, 200])
    expect(upstream.requests.map(({ connection }) => connection)).toEqual([0, 0, 1])
  })

  test('a lawful response that comes byte by byte, behind interim ones, passes', async () => {
    const body = JSON.stringify('HTTP/2.0 200 OK\r\n'.repeat(9000))
    const [upstream, gateway] = await start(request => {
      if (request.number === 2) request.send(EARLY, EARLY, json(body))
      else for (const byte of EARLY + (request.number === 0 ? lawful : lawful10)) request.send(byte)
    })
    for (const text of ['{}', '{}', body]) {
      expect(await get(gateway.port, WORKSPACE_PATH)).toMatchObject({ status: 200, text, complete: true })
    }
    expect(upstream.requests).toHaveLength(3)
  })
})
