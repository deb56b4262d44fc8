import { afterAll, afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../../src/upstream/pool/connection.ts'
import type { UpstreamDeps } from '../../../src/upstream/upstream.ts'
import { makeCertificates } from '../../support/certificates.ts'
import {
  type ForwardingApp,
  metricSum,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../../support/forwarding-app.ts'
import { freePort } from '../../support/free-port.ts'
import { get } from '../../support/http-client.ts'
import {
  json,
  type ScriptedRequest,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../../support/scripted-upstream.ts'

const HOSTS = ['127.0.0.2', '127.0.0.3', '127.0.0.4']
const certificates = await makeCertificates()
let servers: ScriptedUpstream[] = []
let gateway: ForwardingApp
let port = 0
/** The next result of the resolver; with null it never settles. */
let resolution: readonly string[] | Error | null = HOSTS
let lookups = 0
let laterMs = 0

const resolve = async () => {
  lookups += 1
  if (resolution === null) return new Promise<never>(() => {})
  if (resolution instanceof Error) throw resolution
  return resolution
}
/** It stands still, so that nothing is old because a machine is slow. */
const clock = { wallMs: () => laterMs, monotonicMs: () => laterMs }

/** Starts one server per host on the same port. The name resolves to all hosts. */
async function start(
  hosts: readonly string[],
  script: (request: ScriptedRequest) => void,
  settings: Partial<UpstreamSettings> = {},
  deps: Partial<UpstreamDeps> = {},
) {
  port = await freePort()
  servers = await Promise.all(
    hosts.map(host => startScriptedUpstream(request => script(request), undefined, { host, port })),
  )
  gateway = await startForwardingApp(`http://files.test:${port}`, settings, { resolve, clock, ...deps })
}

const send = () => get(gateway.port, WORKSPACE_PATH)
const closing = (request: ScriptedRequest) => {
  request.send(json(`"${request.socket.localAddress}"`, 'Connection: close\r\n'))
  request.socket.end()
}
const received = () => servers.map(server => server.requests.length)
const addresses = (state: string) =>
  metricSum(gateway.metrics, 'postern_upstream_addresses', { upstream: 'default', state })
const errors = () => metricSum(gateway.metrics, 'postern_upstream_errors_total', {})

afterEach(async () => {
  await gateway.stop()
  await Promise.all(servers.map(server => server.stop()))
  servers = []
  resolution = HOSTS
  lookups = 0
  laterMs = 0
})
afterAll(() => certificates.remove())

test('connections are spread over all addresses of the name, and Host holds the name', async () => {
  await start(HOSTS, closing)
  for (let request = 0; request < 9; request++) expect((await send()).status).toBe(200)
  expect(received()).toEqual([3, 3, 3])
  expect(servers[0]?.requests[0]?.headers.get('host')).toBe(`files.test:${port}`)
  expect(lookups).toBe(1)
})

test('if an address refuses, the next one is tried: no request fails or is sent twice', async () => {
  await start(HOSTS.slice(1), closing)
  for (let request = 0; request < 20; request++) expect((await send()).status).toBe(200)
  expect(received()).toEqual([10, 10])
  expect([await addresses('usable'), await addresses('avoided')]).toEqual([2, 1])
  expect(await errors()).toBe(0)
  process.stdout.write('\none of three addresses refuses: 20 requests, 0 failed, 20 at the upstream\n')
})

test('an address that recovers is used again', async () => {
  await start(HOSTS.slice(1), closing)
  for (let request = 0; request < 4; request++) await send()
  const [host] = HOSTS
  servers.push(await startScriptedUpstream(closing, undefined, { host: String(host), port }))
  laterMs = 10_001
  for (let request = 0; request < 6; request++) expect((await send()).status).toBe(200)
  expect(servers[2]?.requests).toHaveLength(2)
  expect(await addresses('avoided')).toBe(0)
})

test('a server that accepts and does not respond is skipped within the connect timeout', async () => {
  const silent = await startScriptedUpstream(() => {})
  const sound = await startScriptedUpstream(closing, certificates.server)
  servers = [silent, sound]
  const settings = {
    addresses: servers.map(server => `127.0.0.1:${server.port}`),
    // Half of it is for the server that responds.
    connectTimeoutMs: 4_000,
    tls: { caFile: certificates.caFile },
  }
  gateway = await startForwardingApp('https://localhost', settings, { clock })
  for (let request = 0; request < 4; request++) expect((await send()).status).toBe(200)
  expect(received()).toEqual([0, 4])
  expect(await errors()).toBe(0)
})

test('if no address can be reached, one failure is counted per request', async () => {
  await start([], closing)
  expect((await send()).status).toBe(502)
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', { kind: 'refused' })).toBe(1)
  expect(await errors()).toBe(1)
})

test('of 300 unreachable addresses at most 64 are tried', async () => {
  resolution = Array.from({ length: 300 }, (_, index) => `127.1.${index >> 8}.${index & 255}`)
  await start([], closing)
  expect((await send()).status).toBe(502)
  expect((await addresses('avoided')) + (await addresses('usable'))).toBe(64)
})

test.each<[string, readonly string[] | Error | null]>([
  ['fails', Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })],
  ['returns no address', []],
  ['never settles', null],
])('while the resolver %s, the last known addresses stay in use', async (_what, failure) => {
  await start(HOSTS, closing)
  expect((await send()).status).toBe(200)
  resolution = failure
  for (let request = 0; request < 6; request++) {
    laterMs += 6_000
    expect((await send()).status).toBe(200)
  }
  expect(lookups).toBeGreaterThan(1)
  expect(await errors()).toBe(0)
})

test('a new address of the name is used', async () => {
  await start(HOSTS, closing)
  resolution = ['127.0.0.2']
  await send()
  resolution = ['127.0.0.3']
  laterMs = 6_000
  for (let request = 0; request < 3; request++) await send()
  expect(received()).toEqual([1, 3, 0])
})

test('a resolver that never settles is a 502 within the connect timeout, with one lookup at a time', async () => {
  resolution = null
  // No other time limit ends them: the clock stands still.
  await start(HOSTS, closing, { connectTimeoutMs: 100 })
  const responses = await Promise.all([send(), send(), send()])
  expect(responses.map(({ status }) => status)).toEqual([502, 502, 502])
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', { kind: 'dns' })).toBe(3)
  expect(lookups).toBe(1)
})

test('a resolver that recovers is used at once', async () => {
  resolution = new Error('resolver down')
  await start(HOSTS, closing)
  expect((await send()).status).toBe(502)
  resolution = HOSTS
  expect((await send()).status).toBe(200)
})

test('a connection closes after about a minute, so that load follows the addresses', async () => {
  await start(['127.0.0.2'], request => request.send(json('{}')))
  resolution = ['127.0.0.2']
  await send()
  await send()
  laterMs = 80_000
  expect((await send()).status).toBe(200)
  expect((await send()).status).toBe(200)
  const requests = servers[0]?.requests ?? []
  expect(requests.map(({ connection }) => connection)).toEqual([0, 0, 0, 1])
  expect(requests.map(({ headers }) => headers.get('connection'))).toEqual([
    'keep-alive',
    'keep-alive',
    'close',
    'keep-alive',
  ])
  expect(await errors()).toBe(0)
})

test('servers may have configured addresses, while TLS verifies the name of upstream.url', async () => {
  servers = [await startScriptedUpstream(closing, certificates.server)]
  const settings = {
    addresses: [`127.0.0.1:${await freePort()}`, `127.0.0.1:${servers[0]?.port}`],
    tls: { caFile: certificates.caFile },
  }
  gateway = await startForwardingApp('https://localhost:1/base', settings, { clock })
  expect((await send()).status).toBe(200)
  expect(servers[0]?.requests[0]?.target).toBe(`/base${WORKSPACE_PATH}`)
  expect(servers[0]?.requests[0]?.headers.get('host')).toBe('localhost:1')
})

test('a server that accepts connections and does not respond is avoided by later requests', async () => {
  await start(
    HOSTS.slice(0, 2),
    request => {
      if (request.socket.localAddress === '127.0.0.3') closing(request)
    },
    { headersTimeoutMs: 150 },
  )
  resolution = HOSTS.slice(0, 2)
  const first = send()
  await servers[0]?.received(1)
  laterMs = 150
  expect((await first).status).toBe(504)
  for (let request = 0; request < 6; request++) expect((await send()).status).toBe(200)
  expect(received()).toEqual([1, 6])
})
