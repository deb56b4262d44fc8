import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { PrepareReload } from '../../../src/config/reloadable.ts'
import {
  KEY_SERVICE_CONNECTIONS,
  KeyServiceClient,
  type KeyServiceSettings,
  OversizedResponse,
} from '../../../src/keys/tiers/key-service-client.ts'
import { selfSigned } from '../../support/certificates.ts'

const GET = { method: 'GET', path: '/keys/1', maxBytes: 100 } as const

let server: Server
let requests: { line: string; headers: IncomingMessage['headers']; body: string }[]
let respond: (response: ServerResponse, count: number) => unknown
let url: string
let client: KeyServiceClient
beforeEach(async () => {
  requests = []
  respond = response => response.end('{}')
  server = createServer(async (message, response) => {
    const body = await text(message)
    requests.push({ line: `${message.method} ${message.url}`, headers: message.headers, body })
    respond(response, requests.length)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  // A server that listens on TCP has such an address.
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  client = create()
})
afterEach(async () => {
  await client.stop()
  server.closeAllConnections()
  server.close()
})

function create(
  more: Partial<KeyServiceSettings> = {},
  onReload = (_: PrepareReload<KeyServiceSettings>) => {},
) {
  return new KeyServiceClient({ url, token: ['secret'], timeoutMs: 1_000, tls: {}, ...more }, onReload)
}

const patient = () => AbortSignal.timeout(30_000)

describe('a request', () => {
  test.each([
    ['', '/internal/v1/keys/1'],
    ['/', '/internal/v1/keys/1'],
    ['/base', '/base/internal/v1/keys/1'],
    ['/a/b///', '/a/b/internal/v1/keys/1'],
  ])('goes below the base path %j', async (path, expected) => {
    client = create({ url: url + path })
    await client.request(GET, patient())
    expect(requests.map(({ line }) => line)).toEqual([`GET ${expected}`])
  })

  test('without a body has no type, and one with a body is JSON', async () => {
    await client.request(GET, patient())
    await client.request({ ...GET, method: 'POST', body: { a: [1] } }, patient())
    expect(requests).toMatchObject([
      { headers: { accept: 'application/json', authorization: 'Bearer secret' }, body: '' },
      { headers: { accept: 'application/json', 'content-type': 'application/json' }, body: '{"a":[1]}' },
    ])
    expect(requests[0]?.headers).not.toHaveProperty('content-type')
  })

  test.each([[[]], [undefined]])('has no Authorization without a token: %j', async token => {
    client = create({ token } as Partial<KeyServiceSettings>)
    await client.request(GET, patient())
    expect(requests[0]?.headers).not.toHaveProperty('authorization')
  })

  test('sends the first of several tokens, and a new one after a reload', async () => {
    const prepared: PrepareReload<KeyServiceSettings>[] = []
    client = create({ token: ['first', 'second'] }, prepare => prepared.push(prepare))
    await client.request(GET, patient())
    for (const prepare of prepared) prepare({ url, token: ['third'], timeoutMs: 1, tls: {} })()
    await client.request(GET, patient())
    expect(requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer first', 'Bearer third'])
  })
})

describe('a response', () => {
  test('is returned with any status, up to its limit', async () => {
    respond = response => response.writeHead(503).end('x'.repeat(100))
    expect(await client.request(GET, patient())).toEqual({ status: 503, text: 'x'.repeat(100) })
  })

  test('is not read beyond its limit', async () => {
    respond = response => response.end('x'.repeat(101))
    const refused = client.request(GET, patient())
    await expect(refused).rejects.toThrow(OversizedResponse)
    await expect(refused).rejects.toThrow('The key service responded with more than 100 bytes')
    expect(requests).toHaveLength(1)
  })

  test('is text in UTF-8, also if it is cut between two bytes of a character', async () => {
    respond = response => {
      const bytes = Buffer.from('"é"')
      response.write(bytes.subarray(0, 2), () => response.end(bytes.subarray(2)))
    }
    expect((await client.request(GET, patient())).text).toBe('"é"')
  })
})

describe('a connection that the server closes', () => {
  test.each<[string, (response: ServerResponse) => unknown]>([
    ['closed', response => response.destroy()],
    ['reset', response => response.socket?.resetAndDestroy()],
  ])('while the request is sent is replaced, once: %s', async (_how, close) => {
    respond = (response, count) => (count === 1 ? close(response) : response.end('again'))
    expect(await client.request(GET, patient())).toEqual({ status: 200, text: 'again' })
    respond = close
    await expect(client.request(GET, patient())).rejects.toThrow()
    expect(requests).toHaveLength(4)
  })

  test('is not replaced after the deadline', async () => {
    const deadline = new AbortController()
    respond = response => {
      deadline.abort(new Error('too late'))
      response.destroy()
    }
    await expect(client.request(GET, deadline.signal)).rejects.toThrow()
    expect(requests).toHaveLength(1)
  })
})

test('a server that does not speak HTTP is tried once', async () => {
  let connections = 0
  const confused = createTcpServer(socket => {
    connections++
    socket.on('error', () => {}).end('-ERR who are you\r\n')
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void confused.close())
  await once(confused, 'listening')
  client = create({ url: `http://127.0.0.1:${(confused.address() as AddressInfo).port}` })
  await expect(client.request(GET, patient())).rejects.toThrow()
  expect(connections).toBe(1)
})

test('any number of requests at once use eight connections', async () => {
  let connections = 0
  server.on('connection', () => connections++)
  await Promise.all(Array.from({ length: 40 }, () => client.request(GET, patient())))
  expect([requests.length, connections]).toEqual([40, KEY_SERVICE_CONNECTIONS])
})

test('a client that was stopped opens no connection', async () => {
  await client.stop()
  await expect(client.request(GET, patient())).rejects.toThrow('destroyed')
  expect(requests).toEqual([])
})

test('an unreachable server is tried once', async () => {
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
  await expect(client.request(GET, patient())).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

describe('files of its certificates are read at once, and an error names the setting', async () => {
  const certificates = await selfSigned()
  const { certFile, keyFile } = certificates

  test.each<[KeyServiceSettings['tls'], RegExp]>([
    [{ caFile: '/nowhere' }, /keyService\.tls\.caFile/],
    [{ caFile: keyFile }, /keyService\.tls\.caFile/],
    [{ certFile: '/nowhere', keyFile }, /keyService\.tls\.certFile/],
    [{ certFile, keyFile: '/nowhere' }, /keyService\.tls\.keyFile/],
    [{ certFile, keyFile: certFile }, /keyService\.tls\.certFile/],
  ])('%j', (tls, error) => {
    expect(() => create({ tls })).toThrow(error)
  })

  test.each<[KeyServiceSettings['tls']]>([
    [{ caFile: certFile, certFile, keyFile }],
    [{ certFile: '/nowhere' }],
    [{ keyFile: '/nowhere' }],
    [{}],
  ])('%j is accepted', tls => {
    expect(() => create({ tls })).not.toThrow()
  })

  test.each<[string, KeyServiceSettings['tls'], boolean]>([
    ['with all of them is accepted', { caFile: certFile, certFile, keyFile }, true],
    ['without a client certificate is rejected by the key service', { caFile: certFile }, false],
    ['without the authority of the key service rejects it', { certFile, keyFile }, false],
  ])('over mutual TLS, a gateway %s', async (_what, tls, isAccepted) => {
    const [cert, key] = [readFileSync(certFile), readFileSync(keyFile)]
    const mutual = { cert, key, ca: cert, requestCert: true, rejectUnauthorized: true }
    const keyService = createTlsServer(mutual, (_request, response) => response.end('{}')).listen(0)
    onTestFinished(() => void keyService.close())
    await once(keyService, 'listening')
    client = create({ url: `https://localhost:${(keyService.address() as AddressInfo).port}`, tls })
    const response = client.request(GET, patient()).then(
      ({ status }) => status,
      () => 'rejected',
    )
    expect(await response).toBe(isAccepted ? 200 : 'rejected')
  })
})
