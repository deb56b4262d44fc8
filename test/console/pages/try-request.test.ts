import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { selfSigned } from '../../support/certificates.ts'
import type { ConsoleOptions } from '../../support/console.ts'
import { type SignedIn, startSignIn } from '../../support/signed-in.ts'
import { until } from '../../support/until.ts'

const API = '/workspaces/ws_1/api'
const ROUTES: NonNullable<ConsoleOptions['routes']> = [
  { name: 'auth', path: '/api/v1/auth', answeredBy: 'gateway' },
  {
    name: 'files',
    path: '/api/v1/workspaces/{workspaceId}/files',
    query: { limit: { type: 'integer', minimum: 1, maximum: 1000 } },
  },
  {
    name: 'file',
    path: '/api/v1/workspaces/{workspaceId}/files/{fileId}',
    query: { kind: { type: 'token', maxLength: 10 } },
  },
]
const KEY = `wsk_${'a'.repeat(54)}`

type Respond = (request: IncomingMessage, response: ServerResponse) => void

interface SentOn {
  readonly method: string | undefined
  readonly url: string | undefined
  readonly headers: IncomingMessage['headers']
}

/** An API that notes what it gets, and a person at a console that forwards to it. */
async function started(options: { perMinute?: number; base?: string; respond?: Respond } = {}) {
  const received: SentOn[] = []
  const api = { respond: options.respond ?? json(200, { ok: true }) }
  const server = createServer((request, response) => {
    const { method, url, headers } = request
    received.push({ method, url, headers })
    api.respond(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const gatewayUrl = `http://127.0.0.1:${port}${options.base ?? ''}`
  const signIn: ConsoleOptions['signIn'] = { gatewayUrl, triedRequestsPerMinute: options.perMinute ?? 1000 }
  const world = await startSignIn({ signIn, routes: ROUTES })
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  const send = async (fields: Record<string, string | readonly string[]>, person = ada, headers = {}) => {
    const {
      status,
      text: markup,
      headers: own,
    } = await person.browser.post(API, { _csrf: person.csrf, route: 'auth', key: KEY, ...fields }, headers)
    return { status, markup, headers: own, text: plain(markup) }
  }
  return { ...world, ada, api, server, received, send, port }
}

const json = (status: number, body: unknown, headers = {}): Respond => {
  return (_, response) =>
    void response
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify(body))
}

const plain = (markup: string) =>
  markup
    .replace(/<[^>]*>/g, ' ')
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&#39;', "'")
    .replace(/\s+/g, ' ')

test('the console sends a GET with the key alone, and shows status, time, headers and body of the response', async () => {
  const { send, received, port } = await started({
    respond: json(200, { hint: '<b>' }, { 'x-request-id': 'r-1' }),
  })
  const { status, text, markup } = await send({})
  expect(status).toBe(200)
  expect(text).toMatch(/200 OK after \d+ ms/)
  expect(text).toContain('{"hint":"<b>"}')
  expect(text).toContain('x-request-id r-1')
  expect(markup).not.toContain('<b>')
  expect(received).toEqual([
    {
      method: 'GET',
      url: '/api/v1/auth',
      headers: {
        host: `127.0.0.1:${port}`,
        connection: 'keep-alive',
        accept: 'application/json',
        'accept-encoding': 'identity',
        'user-agent': 'postern-console',
        authorization: `Bearer ${KEY}`,
      },
    },
  ])
})

test('a key as it was copied works, an API below a path too, and the key is in no page and no log line', async () => {
  const { send, received, log } = await started({
    base: '/base',
    respond: (request, response) => json(200, request.headers)(request, response),
  })
  const { markup } = await send({ key: `"Authorization: Bearer ${KEY}",\n` })
  expect(received[0]).toMatchObject({ url: '/base/api/v1/auth', headers: { authorization: `Bearer ${KEY}` } })
  expect(markup).toContain('Bearer …')
  expect(markup).not.toContain(KEY)
  expect(JSON.stringify(log)).not.toContain(KEY)
})

test.each([
  [401, 'key_expired', 'key_expired : The key has expired. Use a new key.'],
  [
    403,
    'scope_missing',
    'The key lacks the scope that the text and WWW-Authenticate name. Get a key with this scope.',
  ],
  [429, 'rate_limited', 'A rate limit is exceeded. Wait for Retry-After .'],
])('an error %s %s comes with what it means and what to do', async (status, code, expected) => {
  const { send } = await started({ respond: json(status, { code, error: 'text' }) })
  const { status: ofPage, text } = await send({})
  expect(ofPage).toBe(200)
  expect(text).toContain(expected)
})

/** What a page of another site, a script or a crafted form might try. Each is sent nowhere, or is sent as a plain request of ours. */
const ATTACKS: readonly [
  name: string,
  fields: Record<string, string | readonly string[]>,
  headers: Record<string, string>,
  expected: { status: number; url?: string },
][] = [
  ['another path', { route: '/admin', path: '/admin' }, {}, { status: 404 }],
  ['another host as route', { route: '//evil.example/' }, {}, { status: 404 }],
  ['a method', { method: 'DELETE', _method: 'DELETE' }, {}, { status: 200, url: '/api/v1/auth' }],
  [
    'an override of the method',
    {},
    { 'x-http-method-override': 'DELETE' },
    { status: 200, url: '/api/v1/auth' },
  ],
  ['a query of its own', { 'auth.limit': '1', query: 'a=b' }, {}, { status: 200, url: '/api/v1/auth' }],
  [
    'the session of the person',
    {},
    { authorization: 'Bearer another', 'x-api-key': 'another' },
    { status: 200, url: '/api/v1/auth' },
  ],
  ['a forwarded host', {}, { 'x-forwarded-host': 'evil.example' }, { status: 200, url: '/api/v1/auth' }],
  ['another host', {}, { host: 'evil.example' }, { status: 421 }],
  [
    'a form of another site',
    {},
    { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' },
    { status: 403 },
  ],
  ['no CSRF token', { _csrf: '' }, {}, { status: 303 }],
  ['a line end in the key', { key: `${KEY}\r\nX-Injected: 1` }, {}, { status: 422 }],
  ['text as key', { key: 'Ünïcode' }, {}, { status: 422 }],
  ['no key', { key: '' }, {}, { status: 422 }],
  ['a key in a parameter', { route: 'files', 'files.limit': KEY }, {}, { status: 422 }],
  [
    'another workspace as parameter',
    { route: 'files', 'files.workspaceId': 'ws_2' },
    {},
    { status: 200, url: '/api/v1/workspaces/ws_1/files' },
  ],
  [
    'a query in a parameter',
    { route: 'files', 'files.limit': '1&x=/../' },
    {},
    { status: 200, url: '/api/v1/workspaces/ws_1/files?limit=1%26x%3D%2F..%2F' },
  ],
]

test.each(ATTACKS)(
  '%s reaches the API in no request but a plain one',
  async (_, fields, headers, { status, url }) => {
    const { send, ada, received } = await started()
    const answer = await send(fields, ada, headers)
    expect(answer.status).toBe(status)
    expect(received.map(({ method, url }) => [method, url])).toEqual(url === undefined ? [] : [['GET', url]])
    const names = ['accept', 'accept-encoding', 'authorization', 'connection', 'host', 'user-agent']
    for (const { headers } of received) expect(Object.keys(headers).sort()).toEqual(names)
  },
)

test('a route with a further parameter needs a value for it, which goes nowhere but into its segment', async () => {
  const { send, received } = await started()
  expect((await send({ route: 'file' })).text).toContain('Enter a value for fileId.')
  for (const value of ['..', 'a/b', 'a%2fb', 'a?b', '\\', 'ä']) {
    const { status, text } = await send({ route: 'file', 'file.fileId': value })
    expect([status, text.includes('fileId must be 1 to 128 characters')]).toEqual([422, true])
  }
  expect(received).toEqual([])
  await send({ route: 'file', 'file.fileId': 'f_1', 'file.kind': 'text' })
  expect(received[0]?.url).toBe('/api/v1/workspaces/ws_1/files/f_1?kind=text')
})

test('who is not signed in, or may not see the workspace, sends nothing; a viewer may', async () => {
  const { send, received, signedIn, browser } = await started()
  const eve = await signedIn({ sub: 'eve', name: 'Eve', workspaces: ['ws_2'] })
  expect((await send({}, eve)).status).toBe(404)
  const stranger = await browser().post(API, { route: 'auth', key: KEY })
  expect(stranger.headers['location']).toMatch(/^\/sign-in/)
  expect(received).toEqual([])
})

test('nothing of a response becomes a part of the console’s: no cookie, redirect, type or policy', async () => {
  const location = 'https://evil.example/'
  const { send, received, api } = await started()
  api.respond = (_, response) =>
    void response
      .writeHead(302, {
        location,
        'set-cookie': '__Host-postern-session=stolen',
        'content-type': 'text/html',
        'content-security-policy': 'script-src *',
        'access-control-allow-origin': '*',
        'clear-site-data': '"*"',
        refresh: `0; url=${location}`,
        link: '</x.js>; rel=preload; as=script',
      })
      .end('<script>alert(1)</script>')
  const { status, headers, markup, text } = await send({})
  expect(status).toBe(200)
  expect(received).toHaveLength(1)
  for (const name of [
    'location',
    'set-cookie',
    'access-control-allow-origin',
    'clear-site-data',
    'refresh',
    'link',
  ]) {
    expect(headers[name]).toBeUndefined()
  }
  expect(headers['content-type']).toBe('text/html; charset=utf-8')
  expect(headers['content-security-policy']).not.toContain('*')
  expect(markup).not.toContain('<script>alert')
  expect(text).toContain('302 Found')
  expect(text).toContain(`location ${location}`)
  expect(text).not.toContain('stolen')
})

test('of a huge body the first 64 KiB are shown, and the rest is not read', async () => {
  const { send, api } = await started()
  let written = 0
  api.respond = (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const chunk = 'x'.repeat(64 * 1024)
    const more = () => {
      while (!response.destroyed && written < 1e9) {
        written += chunk.length
        if (!response.write(chunk)) return
      }
    }
    response.on('drain', more).on('error', () => {})
    more()
  }
  const { text } = await send({})
  expect(text).toContain('The body is longer: these are its first 64 KiB.')
  expect(/x{1000,}/.exec(text)?.[0]).toHaveLength(64 * 1024)
  expect(written).toBeLessThan(50e6)
})

test('an encoded body is not shown, and an empty one is named', async () => {
  const { send, api } = await started()
  api.respond = (_, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end('abc')
  expect((await send({})).text).toContain('The body is encoded, and is not shown.')
  api.respond = (_, response) => void response.writeHead(204).end()
  expect((await send({})).text).toContain('The response has no body.')
})

test('an API whose certificate no authority signed gets no key', async () => {
  const { certFile, keyFile, remove } = await selfSigned()
  onTestFinished(remove)
  let requests = 0
  const files = { cert: readFileSync(certFile), key: readFileSync(keyFile) }
  const server = createSecureServer(files, (_, response) => {
    requests++
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const gatewayUrl = `https://localhost:${(server.address() as AddressInfo).port}`
  const { signedIn, log } = await startSignIn({ signIn: { gatewayUrl } })
  const ada = await signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  const { text } = await ada.browser.post(API, { _csrf: ada.csrf, route: 'auth', key: KEY })
  expect(text).toContain('The console could not reach the API')
  expect(JSON.stringify(log)).toMatch(/self-signed/)
  expect(requests).toBe(0)
})

test('a short text that is no key is not hidden in the response', async () => {
  const { send } = await started({ respond: json(401, { code: 'key_invalid', error: 'text' }) })
  expect((await send({ key: 'e' })).text).toContain('{"code":"key_invalid","error":"text"}')
})

test('an API that is down, breaks off or does not respond in time is named, with the cause in the log alone', async () => {
  const { send, api, server, log } = await started()
  api.respond = (_, response) => {
    response.writeHead(200, { 'content-length': '100' }).write('{"a":')
    setImmediate(() => response.destroy())
  }
  const broken = 'The console could not reach the API, or the connection broke.'
  expect((await send({})).text).toContain(broken)
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
  const { status, text } = await send({})
  expect(status).toBe(200)
  expect(text).toContain(broken)
  expect(text).not.toContain('ECONNREFUSED')
  expect(JSON.stringify(log)).toContain('ECONNREFUSED')
  expect(JSON.stringify(log)).not.toContain(KEY)
})

test.each([
  ['sends no head', () => {}],
  [
    'sends its body too slowly',
    (_: IncomingMessage, response: ServerResponse) => void response.writeHead(200).write('{'),
  ],
] as const)('an API that %s is given up after ten seconds', async (_, respond) => {
  const { send, received } = await started({ respond })
  const deadlines: AbortController[] = []
  vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => {
    const controller = new AbortController()
    deadlines.push(controller)
    return controller.signal
  })
  onTestFinished(() => void vi.restoreAllMocks())
  const answer = send({})
  await until('the API has the request', async () => received.length === 1 && deadlines.length === 1)
  deadlines[0]?.abort(new Error('late'))
  expect((await answer).text).toContain('The API did not respond within 10 seconds.')
})

test('a person has two requests in flight, and all people together ten', async () => {
  const { send, received, api, signedIn } = await started()
  const open: ServerResponse[] = []
  api.respond = (_, response) => void open.push(response)
  const people: SignedIn[] = []
  for (const sub of ['a', 'b', 'c', 'd', 'e', 'f']) {
    people.push(await signedIn({ sub, name: sub, workspaces: ['ws_1'] }))
  }
  const [first, ...others] = people
  const waiting = others.flatMap(person => [send({}, person), send({}, person)])
  await until('ten requests are in flight', async () => received.length === 10)
  expect((await send({}, first)).text).toContain('Other requests are still waiting for the API.')
  for (const response of open.splice(0, 2)) response.end('{}')
  await Promise.race(waiting)
  const [one, two] = [send({}, first), send({}, first)]
  await until('two more are in flight', async () => received.length === 12)
  expect((await send({}, first)).status).toBe(422)
  for (const response of open) response.end('{}')
  expect((await Promise.all([...waiting, one, two])).every(({ status }) => status === 200)).toBe(true)
  expect(received).toHaveLength(12)
})

test('a person sends so many requests a minute as the setting says, and others go on', async () => {
  const { send, received, signedIn } = await started({ perMinute: 2 })
  await send({})
  await send({ key: '' })
  await send({})
  const { status, headers, text } = await send({})
  expect([status, Number(headers['retry-after']) > 0]).toEqual([429, true])
  expect(text).toMatch(/You have sent 2 requests within a minute\. Wait \d+ seconds\./)
  const bob = await signedIn({ sub: 'bob', name: 'Bob', workspaces: ['ws_1'] })
  expect((await send({}, bob)).status).toBe(200)
  expect(received).toHaveLength(3)
})

test('an answer of 503 is shown as it is, and not asked for again', async () => {
  const { send, received } = await started({
    respond: json(503, { code: 'overloaded', error: 'busy' }, { 'retry-after': '0' }),
  })
  expect((await send({})).text).toContain('503 Service Unavailable')
  expect(received).toHaveLength(1)
})
