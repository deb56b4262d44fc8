import { readFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { createSecureContext } from 'node:tls'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { NO_PROXIES, type ProxySettings } from '../../src/domain/proxy.ts'
import { createConnector } from '../../src/outgoing/connect.ts'
import { OutgoingClient } from '../../src/outgoing/outgoing-client.ts'
import { makeCertificates } from '../support/certificates.ts'
import { ForwardProxy } from '../support/forward-proxy.ts'
import { freePort } from '../support/free-port.ts'

const certificates = await makeCertificates()
const ca = readFileSync(certificates.caFile, 'utf8')
const seen: { headers: IncomingHttpHeaders; target: string }[] = []
const serverNames: string[] = []

const plain = createServer((request, response) => {
  seen.push({ headers: request.headers, target: request.url ?? '' })
  response.end('plain')
})
const secure = createTlsServer(
  {
    ...certificates.server,
    SNICallback: (name, done) => {
      serverNames.push(name)
      done(null, createSecureContext(certificates.server))
    },
  },
  (request, response) => {
    seen.push({ headers: request.headers, target: request.url ?? '' })
    response.end('secure')
  },
)
const portOf = (server: { address(): unknown }) => (server.address() as AddressInfo).port

let proxy: ForwardProxy
beforeAll(async () => {
  for (const server of [plain, secure]) {
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  }
})
afterAll(() => {
  certificates.remove()
  for (const server of [plain, secure]) server.close()
})
beforeEach(async () => {
  seen.length = 0
  serverNames.length = 0
  proxy = await ForwardProxy.start()
  onTestFinished(() => proxy.stop())
  // The certificate is for this name. Only the proxy finds these ports.
  for (const name of ['localhost', 'localhost.']) {
    proxy.routes.set(`${name}:443`, portOf(secure))
    proxy.routes.set(`${name}:80`, portOf(plain))
  }
})

function clientOf(proxies: ProxySettings, more: { timeoutMs?: number } = {}): OutgoingClient {
  const client = new OutgoingClient({ proxies, ca, connectTimeoutMs: more.timeoutMs ?? 5_000 })
  onTestFinished(() => client.stop())
  return client
}

/** Both ways to make a call: what undici calls `request`, and `fetch`. */
const WAYS = {
  request: async (client: OutgoingClient, url: string) => {
    const { statusCode, body } = await client.request(new URL(url), {
      method: 'POST',
      headers: { 'x-field': 'a' },
      body: 'b',
    })
    return [statusCode, await body.text()]
  },
  fetch: async (client: OutgoingClient, url: string) => {
    const response = await client.fetch(url, { method: 'POST', headers: { 'x-field': 'a' }, body: 'b' })
    return [response.status, await response.text()]
  },
} as const

describe.each(Object.entries(WAYS))('a call by %s', (_, call) => {
  const through = () => ({ httpsProxy: proxy.url, httpProxy: proxy.url, noProxy: [] })

  test('over https takes a tunnel, in which the target’s certificate is verified', async () => {
    expect(await call(clientOf(through()), 'https://localhost/a?b=c')).toEqual([200, 'secure'])
    expect(proxy.requests).toEqual(['CONNECT localhost:443'])
    expect(seen).toMatchObject([{ target: '/a?b=c', headers: { host: 'localhost', 'x-field': 'a' } }])
    proxy.routes.set('elsewhere.test:443', portOf(secure))
    await expect(call(clientOf(through()), 'https://elsewhere.test/')).rejects.toThrow()
    expect(seen).toHaveLength(1)
  })

  test('over http is sent to the proxy in absolute form', async () => {
    expect(await call(clientOf(through()), 'http://localhost/a?b=c')).toEqual([200, 'plain'])
    expect(proxy.requests).toEqual(['POST http://localhost/a?b=c'])
    expect(seen).toMatchObject([{ target: '/a?b=c', headers: { host: 'localhost', 'x-field': 'a' } }])
  })

  test('takes user and password from the proxy’s address, and sends them to the proxy alone', async () => {
    proxy.login = 'us er:p@ss/wörd'
    const address = proxy.url.replace(
      '//',
      `//${encodeURIComponent('us er')}:${encodeURIComponent('p@ss/wörd')}@`,
    )
    const client = clientOf({ httpsProxy: address, httpProxy: address, noProxy: [] })
    expect(await call(client, 'https://localhost/')).toEqual([200, 'secure'])
    expect(await call(client, 'http://localhost/')).toEqual([200, 'plain'])
    for (const { headers } of seen) expect(headers).not.toHaveProperty('proxy-authorization')
  })

  test.each(['https://localhost/', 'http://localhost/'])(
    'to %s fails with what to do where the proxy demands user and password, without the password in the text',
    async url => {
      proxy.login = 'user:right'
      const failure = async (login: string) => {
        const address = proxy.url.replace('//', `//${login}`)
        const client = clientOf({ httpsProxy: address, httpProxy: address, noProxy: [] })
        return call(client, url).catch(({ message }: Error) => message)
      }
      expect(await failure('')).toMatch(
        new RegExp(
          `^the proxy ${proxy.url} of outgoing\\.https?Proxy \\(HTTPS?_PROXY\\) responded with 407 for localhost.*put user and password`,
        ),
      )
      expect(await failure('user:wrong-password@')).toMatch(/responded with 407 .*: check user and password/)
      expect(await failure('user:wrong-password@')).not.toContain('wrong-password')
      expect(seen).toEqual([])
    },
  )

  test('over https fails with what to do where the proxy refuses or does not find the target', async () => {
    const failure = () =>
      call(clientOf(through()), 'https://nowhere.test/').catch(({ message }: Error) => message)
    expect(await failure()).toMatch(/responded with 502 for nowhere\.test:443: the proxy does not reach it/)
    proxy.refusesWith = 403
    expect(await failure()).toMatch(
      /responded with 403 .*: allow it at the proxy, or name the host in outgoing\.noProxy/,
    )
  })

  test.each(['https://localhost/', 'http://localhost/'])(
    'to %s fails with the proxy’s name where it cannot be reached',
    async url => {
      const address = `http://user:secret@127.0.0.1:${await freePort()}`
      const client = clientOf({ httpsProxy: address, httpProxy: address, noProxy: [] })
      const failure = await call(client, url).catch((error: unknown) => error)
      expect(failure).toMatchObject({
        code: 'PROXY_UNREACHABLE',
        message: expect.stringMatching(
          /^the proxy http:\/\/127\.0\.0\.1:\d+ of outgoing\..* cannot be reached \(ECONNREFUSED\)/,
        ),
      })
    },
  )

  test('over https fails at its deadline where the proxy does not respond', async () => {
    proxy.hangs = true
    await expect(call(clientOf(through(), { timeoutMs: 200 }), 'https://localhost/')).rejects.toThrow(
      /cannot be reached \(no response within 200 ms\)/,
    )
  })

  test('goes to hosts of noProxy directly', async () => {
    const client = clientOf({ ...through(), noProxy: ['localhost'] })
    expect(await call(client, `https://localhost:${portOf(secure)}/`)).toEqual([200, 'secure'])
    expect(await call(client, `http://localhost:${portOf(plain)}/`)).toEqual([200, 'plain'])
    expect(proxy.requests).toEqual([])
  })

  test('to an absolute name sends it without the final dot in TLS', async () => {
    expect(await call(clientOf(through()), 'https://localhost./')).toEqual([200, 'secure'])
    expect(proxy.requests).toEqual(['CONNECT localhost.:443'])
    expect(serverNames).toEqual(['localhost'])
  })
})

test('a direct connection to an absolute name has the name without the final dot in TLS', async () => {
  const connect = createConnector({
    ca,
    lookup: (_, __, done) => done(null, [{ address: '127.0.0.1', family: 4 }]),
  })
  const target = {
    hostname: 'localhost.',
    host: 'localhost.',
    protocol: 'https:',
    port: String(portOf(secure)),
  }
  const authorized = await new Promise((resolve, reject) => {
    connect(target, (error, socket) => {
      if (error !== null) return reject(error)
      resolve('authorized' in socket && socket.authorized)
      socket.destroy()
    })
  })
  expect(authorized).toBe(true)
  expect(serverNames).toEqual(['localhost'])
})

test('without proxies nothing is asked of one', async () => {
  const client = clientOf(NO_PROXIES)
  expect(await WAYS.request(client, `http://localhost:${portOf(plain)}/`)).toEqual([200, 'plain'])
  expect(proxy.requests).toEqual([])
})

test('a peer that is no HTTP proxy is named as one that cannot be reached', async () => {
  const peer = createTcpServer(socket => socket.end('SSH-2.0-OpenSSH\r\n'))
  await new Promise<void>(resolve => peer.listen(0, '127.0.0.1', () => resolve()))
  onTestFinished(() => void peer.close())
  const address = `http://127.0.0.1:${portOf(peer)}`
  const client = clientOf({ httpsProxy: address, httpProxy: address, noProxy: [] })
  await expect(WAYS.request(client, 'https://localhost/')).rejects.toThrow(/cannot be reached \(HPE_/)
})
