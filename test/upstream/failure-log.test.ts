import { createServer } from 'node:net'
import { afterAll, afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../src/upstream/pool/connection.ts'
import { makeCertificates } from '../support/certificates.ts'
import { type ForwardingApp, startForwardingApp, WORKSPACE_PATH } from '../support/forwarding-app.ts'
import { freePort } from '../support/free-port.ts'
import { get } from '../support/http-client.ts'
import { LogSpy } from '../support/log-spy.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts'
import { until } from '../support/until.ts'

const certificates = await makeCertificates()
let gateway: ForwardingApp
let upstream: ScriptedUpstream | null = null

afterEach(async () => {
  await gateway.stop()
  await upstream?.stop()
  upstream = null
})
afterAll(() => certificates.remove())

async function begin(url: string, settings: Partial<UpstreamSettings> = {}): Promise<LogSpy> {
  const logger = new LogSpy()
  gateway = await startForwardingApp(url, settings, { logger })
  return logger
}

const send = () => get(gateway.port, WORKSPACE_PATH)
const linesOf = (log: LogSpy) =>
  log.lines.filter(({ message }) => /^upstream (failing|recovered)$/.test(message))

test('an upstream that refuses connections is one warning with the cause, not one for each request', async () => {
  const port = await freePort()
  const log = await begin(`http://127.0.0.1:${port}`)
  for (let request = 0; request < 20; request++) expect((await send()).status).toBe(502)
  expect(linesOf(log)).toEqual([
    {
      level: 'warn',
      fields: {
        part: 'upstream',
        reason: `refused: connect ECONNREFUSED 127.0.0.1:${port}`,
        code: 'ECONNREFUSED',
      },
      message: 'upstream failing',
    },
  ])
})

test('its recovery is logged, and what it answers is not', async () => {
  const port = await freePort()
  const log = await begin(`http://127.0.0.1:${port}`)
  await send()
  const server = createServer(socket =>
    socket
      .on('data', () => socket.write('HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n'))
      .on('error', () => {}),
  ).listen(port, '127.0.0.1')
  expect((await send()).status).toBe(502)
  expect(linesOf(log).map(({ level }) => level)).toEqual(['warn', 'info'])
  server.close()
})

test.each<[string, () => Promise<[string, Partial<UpstreamSettings>]>, string, RegExp]>([
  [
    'a name that does not resolve',
    async () => ['http://upstream.invalid', {}],
    'ENOTFOUND|EAI_AGAIN',
    /^dns: getaddrinfo E/,
  ],
  [
    'a certificate of an unknown authority',
    async () => {
      upstream = await startScriptedUpstream(request => request.send(json('{}')), certificates.server)
      return [upstream.url, {}]
    },
    'SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE|DEPTH_ZERO_SELF_SIGNED_CERT',
    /^tls: .*certificate/,
  ],
  [
    'https where the upstream speaks http',
    async () => {
      upstream = await startScriptedUpstream(request => request.send(json('{}')))
      return [upstream.url.replace('http:', 'https:'), { connectTimeoutMs: 200 }]
    },
    '.+',
    /^(tls|reset|protocol|connect_timeout): ./,
  ],
  [
    'an upstream that hangs',
    async () => {
      upstream = await startScriptedUpstream(() => {})
      return [upstream.url, { headersTimeoutMs: 200 }]
    },
    'headers_timeout',
    /^headers_timeout: no response headers within upstream.headersTimeoutMs$/,
  ],
  [
    'an upstream that closes each connection',
    async () => {
      upstream = await startScriptedUpstream(request => request.socket.destroy())
      return [upstream.url, {}]
    },
    'UND_ERR_SOCKET|ECONNRESET',
    /^reset: ./,
  ],
  [
    'a server of another protocol',
    async () => {
      upstream = await startScriptedUpstream(request => request.send('SSH-2.0-OpenSSH_9.6\r\n'))
      return [upstream.url, {}]
    },
    '.+',
    /^protocol: ./,
  ],
])('the log names %s', async (_, make, code, reason) => {
  const [url, settings] = await make()
  const log = await begin(url, settings)
  expect((await send()).status).toBeGreaterThanOrEqual(502)
  const [line] = linesOf(log)
  expect(line?.fields).toMatchObject({
    part: 'upstream',
    code: expect.stringMatching(new RegExp(`^(${code})$`)),
    reason: expect.stringMatching(reason),
  })
})

test('a full queue is no failure of the upstream', async () => {
  upstream = await startScriptedUpstream(() => {})
  const log = await begin(upstream.url, { connections: 1, queue: { maxRequests: 0, maxWaitMs: 100 } })
  const first = send()
  await until('the first request arrives', () => upstream?.requests.length === 1)
  expect((await send()).status).toBe(503)
  expect(linesOf(log)).toEqual([])
  upstream.requests[0]?.send(json('{}'))
  await first
})
