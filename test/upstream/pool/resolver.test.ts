import { afterAll, afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../../src/upstream/pool/connection.ts'
import type { UpstreamDeps } from '../../../src/upstream/upstream.ts'
import { makeCertificates } from '../../support/certificates.ts'
import {
  type ForwardingApp,
  metricValue,
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
const certificates = makeCertificates()
let servers: ScriptedUpstream[] = []
let gateway: ForwardingApp
let port = 0
/** What the resolver says next; where it is null, it never answers. */
let answer: readonly string[] | Error | null = HOSTS
let asked = 0
let laterMs = 0

const resolve = async () => {
  asked += 1
  if (answer === null) return new Promise<never>(() => {})
  if (answer instanceof Error) throw answer
  return answer
}
const clock = { wallMs: () => Date.now(), monotonicMs: () => performance.now() + laterMs }

/** One server on each host, all on one port, under a name that has all their addresses. */
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

const ask = () => get(gateway.port, WORKSPACE_PATH)
const closing = (request: ScriptedRequest) => {
  request.send(json(`"${request.socket.localAddress}"`, 'Connection: close\r\n'))
  request.socket.end()
}
const received = () => servers.map(server => server.requests.length)
const addresses = (state: string) =>
  metricValue(gateway.metrics, 'postern_upstream_addresses', { upstream: 'default', state })
const errors = () => metricValue(gateway.metrics, 'postern_upstream_errors_total', {})

afterEach(async () => {
  await gateway.stop()
  await Promise.all(servers.map(server => server.stop()))
  servers = []
  answer = HOSTS
  asked = 0
  laterMs = 0
})
afterAll(() => certificates.remove())

test('connections are spread over all addresses of the name, and the name is what servers are asked for', async () => {
  await start(HOSTS, closing)
  for (let request = 0; request < 9; request++) expect((await ask()).status).toBe(200)
  expect(received()).toEqual([3, 3, 3])
  expect(servers[0]?.requests[0]?.headers.get('host')).toBe(`files.test:${port}`)
  expect(asked).toBe(1)
})

test('where an address refuses, the next is tried: no client notices, and no request is sent twice', async () => {
  await start(HOSTS.slice(1), closing)
  for (let request = 0; request < 20; request++) expect((await ask()).status).toBe(200)
  expect(received()).toEqual([10, 10])
  expect([await addresses('usable'), await addresses('avoided')]).toEqual([2, 1])
  expect(await errors()).toBe(0)
  process.stdout.write('\none of three addresses refuses: 20 requests, 0 failed, 20 at the upstream\n')
})

test('an address that is back is used again', async () => {
  await start(HOSTS.slice(1), closing)
  for (let request = 0; request < 4; request++) await ask()
  const [host] = HOSTS
  servers.push(await startScriptedUpstream(closing, undefined, { host: String(host), port }))
  laterMs = 10_001
  for (let request = 0; request < 6; request++) expect((await ask()).status).toBe(200)
  expect(servers[2]?.requests).toHaveLength(2)
  expect(await addresses('avoided')).toBe(0)
})

test('a server that accepts and says nothing is passed over within the time for a connection', async () => {
  const silent = await startScriptedUpstream(() => {})
  const sound = await startScriptedUpstream(closing, certificates.server)
  servers = [silent, sound]
  const settings = {
    addresses: servers.map(server => `127.0.0.1:${server.port}`),
    connectTimeoutMs: 400,
    tls: { caFile: certificates.caFile },
  }
  gateway = await startForwardingApp('https://localhost', settings, { clock })
  for (let request = 0; request < 4; request++) expect((await ask()).status).toBe(200)
  expect(received()).toEqual([0, 4])
  expect(await errors()).toBe(0)
})

test('where no address can be reached, that is one failure of one request', async () => {
  await start([], closing)
  expect((await ask()).status).toBe(502)
  expect(await metricValue(gateway.metrics, 'postern_upstream_errors_total', { kind: 'refused' })).toBe(1)
  expect(await errors()).toBe(1)
})

test('of three hundred addresses, all dead, so many are tried as the time allows', async () => {
  answer = Array.from({ length: 300 }, (_, index) => `127.1.${index >> 8}.${index & 255}`)
  await start([], closing)
  expect((await ask()).status).toBe(502)
  expect((await addresses('avoided')) + (await addresses('usable'))).toBe(64)
})

test.each<[string, readonly string[] | Error | null]>([
  ['fails', Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })],
  ['answers nothing', []],
  ['never answers', null],
])('while the resolver %s, the addresses that were last known stay in use', async (_what, trouble) => {
  await start(HOSTS, closing)
  expect((await ask()).status).toBe(200)
  answer = trouble
  for (let request = 0; request < 6; request++) {
    laterMs += 6_000
    expect((await ask()).status).toBe(200)
  }
  expect(asked).toBeGreaterThan(1)
  expect(await errors()).toBe(0)
})

test('a name that moves is followed', async () => {
  await start(HOSTS, closing)
  answer = ['127.0.0.2']
  await ask()
  answer = ['127.0.0.3']
  laterMs = 6_000
  for (let request = 0; request < 3; request++) await ask()
  expect(received()).toEqual([1, 3, 0])
})

test('a resolver that never answers is a 502 within the time for a connection, and is asked once at a time', async () => {
  answer = null
  await start(HOSTS, closing, { connectTimeoutMs: 100 })
  const answers = await Promise.all([ask(), ask(), ask()])
  expect(answers.map(({ status }) => status)).toEqual([502, 502, 502])
  expect(await metricValue(gateway.metrics, 'postern_upstream_errors_total', { kind: 'dns' })).toBe(3)
  expect(asked).toBe(1)
  for (const { observation } of gateway.requests) expect(observation.upstreamWaitMs).toBeLessThan(1_000)
})

test('a resolver that comes back is believed at once', async () => {
  answer = new Error('away')
  await start(HOSTS, closing)
  expect((await ask()).status).toBe(502)
  answer = HOSTS
  expect((await ask()).status).toBe(200)
})

test('a connection ends after about a minute, in order, so that load follows the addresses', async () => {
  await start(['127.0.0.2'], request => request.send(json('{}')))
  answer = ['127.0.0.2']
  await ask()
  await ask()
  laterMs = 80_000
  expect((await ask()).status).toBe(200)
  expect((await ask()).status).toBe(200)
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

test('servers may stand at addresses of their own, under the one name that TLS goes on asking for', async () => {
  servers = [await startScriptedUpstream(closing, certificates.server)]
  const settings = {
    addresses: [`127.0.0.1:${await freePort()}`, `127.0.0.1:${servers[0]?.port}`],
    tls: { caFile: certificates.caFile },
  }
  gateway = await startForwardingApp('https://localhost:1/base', settings, { clock })
  expect((await ask()).status).toBe(200)
  expect(servers[0]?.requests[0]?.target).toBe(`/base${WORKSPACE_PATH}`)
  expect(servers[0]?.requests[0]?.headers.get('host')).toBe('localhost:1')
})

test('a server that takes connections and answers none of its requests is avoided by the next ones', async () => {
  await start(
    HOSTS.slice(0, 2),
    request => {
      if (request.socket.localAddress === '127.0.0.3') closing(request)
    },
    { headersTimeoutMs: 150 },
  )
  answer = HOSTS.slice(0, 2)
  expect((await ask()).status).toBe(504)
  for (let request = 0; request < 6; request++) expect((await ask()).status).toBe(200)
  expect(received()).toEqual([1, 6])
})
