import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { PrepareReload } from '../../../../src/config/reloadable.ts'
import {
  KeyServiceClient,
  type KeyServiceSettings,
  OversizedResponse,
} from '../../../../src/keys/tiers/key-service/key-service-client.ts'
import { Certificates } from '../../../support/self-signed.ts'

const GET = { method: 'GET', path: '/keys/1', maxBytes: 100 } as const

let server: Server
let requests: { line: string; headers: IncomingMessage['headers']; body: string }[]
let respond: (response: ServerResponse, count: number) => void
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
  test('while the request is sent is replaced, once', async () => {
    respond = (response, count) => (count === 1 ? response.destroy() : response.end('again'))
    expect(await client.request(GET, patient())).toEqual({ status: 200, text: 'again' })
    respond = response => response.destroy()
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

test('an unreachable server is tried once', async () => {
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
  await expect(client.request(GET, patient())).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

describe('files of its certificates are read at once, and an error names the setting', () => {
  const certificates = new Certificates()
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
})
