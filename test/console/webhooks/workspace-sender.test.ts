import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createHttps } from 'node:https'
import {
  type AddressInfo,
  createServer,
  getDefaultAutoSelectFamily,
  setDefaultAutoSelectFamily,
} from 'node:net'
import { Webhook } from 'standardwebhooks'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { createWorkspaceChannel } from '../../../src/console/webhooks/channels.ts'
import type { ResolveAddresses } from '../../../src/console/webhooks/guarded-connector.ts'
import { type AddressPolicy, mayConnectTo } from '../../../src/domain/form/address.ts'
import { NO_PROXIES, type ProxySettings } from '../../../src/domain/proxy.ts'
import { makeCertificates } from '../../support/certificates.ts'
import { ForwardProxy } from '../../support/forward-proxy.ts'
import { WebhookReceiver } from '../../support/webhook-receiver.ts'

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const EVENT = { receiver: 'ws_1', id: 'msg_1', body: '{"type":"test"}' }
const NO_RESPONSE = 'No response: the address is unreachable, not allowed or without a valid certificate'
const NOTHING = { allowedCidrs: [], deniedCidrs: [] }
const LOOPBACK = { allowedCidrs: ['127.0.0.0/8'], deniedCidrs: [] }

let receiver: WebhookReceiver
let port: string
beforeEach(async () => {
  receiver = await WebhookReceiver.start()
  port = new URL(receiver.url).port
  onTestFinished(() => receiver.stop())
})

interface Scene {
  readonly policy?: AddressPolicy
  readonly resolve?: ResolveAddresses
  readonly timeoutMs?: number
  readonly proxies?: ProxySettings
  readonly ca?: string
}

function send(
  url: string,
  { policy = LOOPBACK, resolve, timeoutMs = 2_000, proxies = NO_PROXIES, ca }: Scene = {},
) {
  const guard = {
    mayConnectTo: (address: string) => mayConnectTo(address, policy),
    resolve: resolve ?? (async () => ['127.0.0.1']),
    proxies,
    timeoutMs,
    ...(ca === undefined ? {} : { ca }),
  }
  const channel = createWorkspaceChannel(guard, async () => ({ url, secret: SECRET }))
  return channel.send(EVENT, Date.now())
}

describe('an event to the address that a workspace has set', () => {
  test('arrives with its path and query and a signature that the Standard Webhooks library verifies', async () => {
    expect(await send(`http://hooks.test:${port}/in?of=ws_1`)).toEqual({ ok: true, status: 204 })
    const [message] = receiver.received
    expect(message?.url).toBe('/in?of=ws_1')
    const headers = message?.headers as Record<string, string>
    expect(new Webhook(SECRET).verify(message?.body ?? '', headers)).toEqual({ type: 'test' })
  })

  test.each([
    ['the address itself', '127.0.0.1'],
    ['its name', 'hooks.test'],
    ['its IPv4-mapped form', '[::ffff:127.0.0.1]'],
    ['its number', '2130706433'],
  ])('is not sent into the operator’s network, and makes no connection: %s', async (_, host) => {
    let connections = 0
    const server = createServer(socket => {
      connections++
      socket.destroy()
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void server.close())
    const { port: own } = server.address() as AddressInfo
    expect(await send(`http://${host}:${own}/`, { policy: NOTHING })).toMatchObject({
      ok: false,
      status: null,
      reason: NO_RESPONSE,
      cause: 'ADDRESS_NOT_ALLOWED',
    })
    expect(connections).toBe(0)
  })

  test('goes to the address that was checked, also if the name’s server changes its answers', async () => {
    // Another loopback address stands for a public one: only it is allowed.
    const policy = { allowedCidrs: ['127.0.0.5/32'], deniedCidrs: [] }
    const asked: string[] = []
    const answers = [['127.0.0.1'], ['127.0.0.5', '127.0.0.1'], ['127.0.0.5'], ['127.0.0.1']]
    const resolve = async (name: string) => {
      asked.push(name)
      return answers[asked.length - 1] ?? []
    }
    const server = createServer(socket => {
      expect(socket.localAddress).toBe('127.0.0.5')
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    })
    await once(server.listen(0, '127.0.0.5'), 'listening')
    onTestFinished(() => void server.close())
    const url = `http://rebinds.test:${(server.address() as AddressInfo).port}/`
    for (const sent of [false, false, true, false]) {
      expect(await send(url, { policy, resolve })).toMatchObject({ ok: sent })
    }
    // Once for each connection.
    expect(asked).toEqual(Array.from({ length: 4 }, () => 'rebinds.test'))
  })

  test('arrives also where Node was started without choosing among the addresses of a name', async () => {
    const before = getDefaultAutoSelectFamily()
    setDefaultAutoSelectFamily(false)
    onTestFinished(() => setDefaultAutoSelectFamily(before))
    expect(await send(`http://hooks.test:${port}/`)).toEqual({ ok: true, status: 204 })
  })

  test('is not redirected', async () => {
    receiver.answer = response => response.writeHead(307, { location: '/elsewhere' }).end()
    const answer = { ok: false, status: 307, reason: 'Response status 307' }
    expect(await send(`http://hooks.test:${port}/`)).toMatchObject(answer)
    expect(receiver.received.map(({ url }) => url)).toEqual(['/'])
  })

  test('may be answered without end: only the beginning is read', async () => {
    receiver.answer = response => {
      response.writeHead(200)
      const flood = () => {
        while (!response.destroyed && response.write(Buffer.alloc(64 * 1024))) {}
      }
      response.on('drain', flood)
      flood()
    }
    expect(await send(`http://hooks.test:${port}/`, { timeoutMs: 60_000 })).toEqual({ ok: true, status: 200 })
    expect(receiver.received).toHaveLength(1)
  })

  test('fails with one text, so that its people cannot tell which names, addresses and ports are in use', async () => {
    receiver.answer = () => {}
    const free = createServer()
    await once(free.listen(0, '127.0.0.1'), 'listening')
    const { port: closed } = free.address() as AddressInfo
    free.close()
    const unknown = () => Promise.reject(Object.assign(new Error('no such name'), { code: 'NO_ADDRESS' }))
    const failures = [
      await send(`http://hooks.test:${port}/`, { timeoutMs: 150 }),
      await send(`http://hooks.test:${closed}/`),
      await send(`http://hooks.test:${closed}/`, { policy: NOTHING }),
      await send('http://nowhere.test:8080/', { resolve: unknown }),
      await send(`https://hooks.test:${port}/`),
    ]
    expect(new Set(failures.map(failure => (failure.ok ? '' : failure.reason)))).toEqual(
      new Set([NO_RESPONSE]),
    )
    const causes = failures.map(failure => (failure.ok ? '' : failure.cause))
    expect(causes.slice(0, 4)).toEqual(['timeout', 'ECONNREFUSED', 'ADDRESS_NOT_ALLOWED', 'NO_ADDRESS'])
  })

  test('is sent over TLS only to the holder of a certificate for its name', async () => {
    const certificates = await makeCertificates()
    const ca = readFileSync(certificates.caFile, 'utf8')
    const server = createHttps(certificates.server, (_, response) => response.writeHead(204).end())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => {
      server.close()
      certificates.remove()
    })
    const { port: secure } = server.address() as AddressInfo
    expect(await send(`https://localhost:${secure}/`, { ca })).toEqual({ ok: true, status: 204 })
    expect(await send(`https://127.0.0.1:${secure}/`, { ca })).toEqual({ ok: true, status: 204 })
    expect(await send(`https://other.test:${secure}/`, { ca })).toMatchObject({ ok: false })
    expect(await send(`https://localhost:${secure}/`)).toMatchObject({ ok: false, reason: NO_RESPONSE })
  })
})

describe('where outgoing calls take a proxy, which stands in the operator’s network', () => {
  let proxy: ForwardProxy
  beforeEach(async () => {
    proxy = await ForwardProxy.start()
    onTestFinished(() => proxy.stop())
    // The proxy itself would reach everything.
    for (const host of ['127.0.0.1', 'hooks.test', '169.254.169.254', '[::1]']) {
      for (const suffix of [port, '80', '443']) proxy.routes.set(`${host}:${suffix}`, Number(port))
    }
  })
  const through = () => ({ httpsProxy: proxy.url, httpProxy: proxy.url, noProxy: [] })

  test.each([
    ['an address of this machine', 'http://127.0.0.1/', ['93.184.215.14']],
    ['the same by https', 'https://127.0.0.1/', ['93.184.215.14']],
    ['the same in IPv6', 'https://[::1]/', ['93.184.215.14']],
    ['the metadata service of a cloud', 'http://169.254.169.254/latest/meta-data/', ['93.184.215.14']],
    ['a name with a private address', 'https://hooks.test/', ['10.0.0.1']],
    ['a plain name with a private address', 'http://hooks.test/', ['127.0.0.1']],
    ['a name with one private address of two', 'https://hooks.test/', ['93.184.215.14', '169.254.169.254']],
  ])('%s is not asked of the proxy', async (_, url, addresses) => {
    const resolve = async () => addresses
    expect(await send(url, { policy: NOTHING, resolve, proxies: through() })).toMatchObject({
      ok: false,
      cause: 'ADDRESS_NOT_ALLOWED',
    })
    expect(proxy.requests).toEqual([])
    expect(receiver.received).toEqual([])
  })

  test.each([
    ['https', '443', '93.184.215.14'],
    ['http', '80', '93.184.215.14'],
    ['https', '443', '[2001:4860::1]'],
  ])(
    'an event by %s goes through a tunnel to port %s of the address that was checked, %s, never to a name',
    async (scheme, port, host) => {
      const resolve = async () => [host.replace(/[[\]]/g, '')]
      await send(`${scheme}://hooks.test/`, { policy: NOTHING, resolve, proxies: through() })
      expect(proxy.requests).toEqual([`CONNECT ${host}:${port}`])
    },
  )

  test('it arrives, with the name of the receiver in Host', async () => {
    const proxies = through()
    expect(await send(`http://hooks.test:${port}/in`, { proxies })).toEqual({ ok: true, status: 204 })
    expect(proxy.requests).toEqual([`CONNECT 127.0.0.1:${port}`])
    expect(receiver.received[0]?.headers.host).toBe(`hooks.test:${port}`)
  })

  test('its certificate is that of the receiver’s name', async () => {
    const certificates = await makeCertificates()
    onTestFinished(() => certificates.remove())
    const accepted: string[] = []
    const secure = createHttps(certificates.server, (request, response) => {
      accepted.push(request.headers.host ?? '')
      response.writeHead(204).end()
    })
    await once(secure.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void secure.close())
    // A server on a port has an address that is an object.
    const { port: own } = secure.address() as AddressInfo
    proxy.routes.set('127.0.0.1:443', own)
    const scene = { ca: readFileSync(certificates.caFile, 'utf8'), proxies: through() }
    expect(await send('https://localhost/', scene)).toEqual({ ok: true, status: 204 })
    expect(await send('https://hooks.test/', scene)).toMatchObject({ ok: false })
    expect(accepted).toEqual(['localhost'])
  })

  test('a refusal of the proxy is named to the operator, not to the workspace', async () => {
    proxy.refusesWith = 403
    expect(await send(`http://hooks.test:${port}/`, { proxies: through() })).toEqual({
      ok: false,
      status: null,
      reason: NO_RESPONSE,
      cause: expect.stringContaining(
        `the proxy ${proxy.url} of outgoing.httpProxy (HTTP_PROXY) responded with 403`,
      ),
    })
  })

  test('hosts of noProxy are called directly, and guarded as ever', async () => {
    const proxies = { ...through(), noProxy: ['hooks.test'] }
    expect(await send(`http://hooks.test:${port}/`, { proxies })).toEqual({ ok: true, status: 204 })
    expect(await send(`http://hooks.test:${port}/`, { proxies, policy: NOTHING })).toMatchObject({
      ok: false,
    })
    expect(proxy.requests).toEqual([])
  })
})
