import { Agent } from 'node:http'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { FILES_PATH, WORKSPACE_PATH } from '../support/forwarding-app.ts'
import { type Answer, get } from '../support/http-client.ts'
import {
  json,
  type ScriptedRequest,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../support/scripted-upstream.ts'

/** A proxy that forwards requests to an upstream. */
export interface Engine {
  readonly name: string
  start(upstreamUrl: string): Promise<{ port: number; stop(): Promise<void> }>
  /** Guarantees that it breaks, by name. */
  readonly exceptions: Readonly<Record<string, Exception>>
}

/** The check of a guarantee fails with this error, and with no other. */
interface Exception {
  readonly reason: string
  readonly failure: string | RegExp
}

interface Guarantee {
  readonly name: string
  respond(request: ScriptedRequest): void
  check(send: Send, upstream: ScriptedUpstream): Promise<void>
}

type Send = (path?: string, headers?: Record<string, string>, agent?: Agent) => Promise<Answer>

const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
const largeBody = Buffer.from(JSON.stringify({ files: 'f'.repeat(5_000_000) }))
const compressed = gzipSync('{"id":"ws_1"}')

/** What every proxy guarantees to client and upstream. */
const GUARANTEES: readonly Guarantee[] = [
  {
    name: 'status, type and bytes of a JSON body are the upstream’s',
    respond: request => request.send(json('{"näme":"ws_1"}')),
    async check(send) {
      const response = await send()
      expect(response).toMatchObject({ status: 200, text: '{"näme":"ws_1"}' })
      expect(response.headers).toMatchObject({ 'content-type': 'application/json', 'content-length': '16' })
    },
  },
  {
    name: 'a 201 and a 203 keep their status',
    respond: request =>
      request.send(json('{}').replace('200 OK', request.number === 0 ? '201 Made' : '203 Seen')),
    async check(send) {
      expect((await send()).status).toBe(201)
      expect((await send()).status).toBe(203)
    },
  },
  {
    name: 'the target arrives with its query',
    respond: request => request.send(json('{}')),
    async check(send, upstream) {
      await send(`${FILES_PATH}?limit=7`)
      expect(upstream.requests.at(-1)?.target).toBe(`${FILES_PATH}?limit=7`)
    },
  },
  {
    name: 'a large body arrives complete',
    respond: request => request.send(`${head}Content-Length: ${largeBody.length}\r\n\r\n`, largeBody),
    async check(send) {
      expect((await send()).body.equals(largeBody)).toBe(true)
    },
  },
  {
    name: 'a chunked body in arbitrary segments arrives complete',
    respond: request => {
      request.send(`${head}Transfer-Encoding: chunked\r\n\r\n`)
      for (const piece of [
        '6\r\n{"id":\r',
        '\n6;x=y\r\n"ws',
        '_1"\r\n1\r\n}\r\n',
        '0\r\nX-Trailer: 1\r\n',
        '\r\n',
      ]) {
        request.send(piece)
      }
    },
    async check(send) {
      const response = await send()
      expect(response).toMatchObject({ status: 200, text: '{"id":"ws_1"}', complete: true })
      expect(response.headers['transfer-encoding']).toBe('chunked')
    },
  },
  {
    name: 'an encoded body passes unchanged',
    respond: request =>
      request.send(
        `${head}Content-Encoding: gzip\r\nContent-Length: ${compressed.length}\r\n\r\n`,
        compressed,
      ),
    async check(send) {
      const response = await send(WORKSPACE_PATH, { 'Accept-Encoding': 'gzip' })
      expect(response.headers['content-encoding']).toBe('gzip')
      expect(response.body.equals(compressed)).toBe(true)
    },
  },
  {
    name: 'a conditional request gets a 304 with its validator',
    respond: request => {
      const same = request.headers.get('if-none-match') === '"7"'
      request.send(same ? 'HTTP/1.1 304 Same\r\nETag: "7"\r\n\r\n' : json('{}', 'ETag: "7"\r\n'))
    },
    async check(send) {
      const { etag } = (await send()).headers
      const response = await send(WORKSPACE_PATH, { 'If-None-Match': etag ?? '' })
      expect(response).toMatchObject({ status: 304, text: '', complete: true })
      expect(response.headers.etag).toBe('"7"')
    },
  },
  {
    name: 'a 204 has no body',
    respond: request => request.send('HTTP/1.1 204 None\r\n\r\n'),
    check: async send => expect(await send()).toMatchObject({ status: 204, text: '', complete: true }),
  },
  {
    name: 'a 202 without a body passes, although it has no type',
    respond: request => request.send('HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n'),
    async check(send) {
      const response = await send()
      expect(response).toMatchObject({ status: 202, text: '', complete: true })
      expect(response.headers).toMatchObject({ 'content-length': '0' })
      expect(response.headers).not.toHaveProperty('content-type')
    },
  },
  {
    name: 'headers of content negotiation, caching and tracing pass both ways',
    respond: request => {
      const named =
        'Last-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\nVary: Accept\r\nCache-Control: max-age=5\r\nAge: 3\r\n'
      request.send(json('{}', `${named}Link: </next>; rel=next\r\n`))
    },
    async check(send, upstream) {
      const sent = {
        accept: 'application/json',
        'accept-language': 'de',
        'user-agent': 'curl',
        traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      }
      const response = await send(WORKSPACE_PATH, sent)
      expect(Object.fromEntries(upstream.requests.at(-1)?.headers ?? [])).toMatchObject(sent)
      expect(response.headers).toMatchObject({
        'last-modified': 'Wed, 21 Oct 2026 07:28:00 GMT',
        vary: 'Accept',
        'cache-control': 'max-age=5',
        age: '3',
        link: '</next>; rel=next',
      })
    },
  },
  {
    name: 'the client’s connection is reused for its next request',
    respond: request => request.send(json('{}')),
    async check(send) {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const first = await send(WORKSPACE_PATH, {}, agent)
      const second = await send(WORKSPACE_PATH, {}, agent)
      expect(second.socket).toBe(first.socket)
      agent.destroy()
    },
  },
  {
    name: 'the upstream’s connection is reused for the next request',
    respond: request => request.send(json('{}')),
    async check(send, upstream) {
      await send()
      await send()
      expect(upstream.sockets).toHaveLength(1)
    },
  },
  {
    name: 'concurrent responses reach their own clients',
    respond: request => setImmediate(() => request.send(json(`"${request.target}"`))),
    async check(send) {
      const paths = Array.from({ length: 60 }, (_, number) => `${FILES_PATH}?limit=${number + 1}`)
      const responses = await Promise.all(paths.map(path => send(path)))
      expect(responses.map(response => JSON.parse(response.text))).toEqual(paths)
    },
  },
  {
    name: 'connection headers of the client are not forwarded',
    respond: request => request.send(json('{}')),
    async check(send, upstream) {
      await send(WORKSPACE_PATH, {
        Connection: 'close, X-Mine',
        'X-Mine': '1',
        'Keep-Alive': 'timeout=9',
        TE: 'trailers',
      })
      const arrived = [...(upstream.requests.at(-1)?.headers.keys() ?? [])]
      expect(arrived.filter(name => ['x-mine', 'keep-alive', 'te'].includes(name))).toEqual([])
    },
  },
  {
    name: 'connection headers of the upstream do not reach the client',
    respond: request => request.send(json('{}', 'Connection: keep-alive, X-Theirs\r\nX-Theirs: 1\r\n')),
    check: async send => expect((await send()).headers).not.toHaveProperty('x-theirs'),
  },
  {
    name: 'a truncated response never looks complete',
    respond: request => request.socket.end(`${head}Content-Length: 50\r\n\r\n{"half":`),
    check: async send => expect((await send()).complete).toBe(false),
  },
  {
    name: 'an unreachable upstream is a 502',
    respond: () => {},
    async check(send, upstream) {
      await upstream.stop()
      expect((await send()).status).toBe(502)
    },
  },
  {
    name: 'a redirect passes',
    respond: request => request.send('HTTP/1.1 302 There\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n'),
    check: async send => expect((await send()).headers.location).toBe('/other'),
  },
  {
    name: 'a page that is not JSON passes',
    respond: request => request.send(json('<p>').replace('application/json', 'text/html')),
    check: async send => expect((await send()).text).toBe('<p>'),
  },
  {
    name: 'the upstream’s own 401 passes',
    respond: request => request.send(json('{}').replace('200 OK', '401 Who')),
    check: async send => expect((await send()).status).toBe(401),
  },
  {
    name: 'the upstream’s own error page passes',
    respond: request => request.send(json('{"stack":"at 10.0.0.1"}').replace('200 OK', '500 No')),
    check: async send => expect((await send()).text).toBe('{"stack":"at 10.0.0.1"}'),
  },
  {
    name: 'any header of the upstream passes',
    respond: request => request.send(json('{}', 'Server: nginx\r\nSet-Cookie: a=b\r\n')),
    async check(send) {
      const { headers } = await send()
      expect(headers['server']).toBe('nginx')
      expect(headers['set-cookie']).toEqual(['a=b'])
    },
  },
  {
    name: 'any header of the client passes',
    respond: request => request.send(json('{}')),
    async check(send, upstream) {
      await send(WORKSPACE_PATH, { Cookie: 'a=b', Authorization: 'Bearer x' })
      expect(upstream.requests.at(-1)?.headers.get('authorization')).toBe('Bearer x')
    },
  },
  {
    name: 'a body that ends with its connection passes',
    respond: request => request.socket.end(`${head}Connection: close\r\n\r\n{}`),
    async check(send) {
      const { status, text } = await send()
      expect(status).toBe(200)
      expect(text).toBe('{}')
    },
  },
  {
    name: 'a public Cache-Control stays public',
    respond: request => request.send(json('{}', 'Cache-Control: public, max-age=5\r\n')),
    check: async send => expect((await send()).headers['cache-control']).toBe('public, max-age=5'),
  },
  {
    name: 'a request is sent once, also if the response is a 503',
    respond: request => request.send('HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n'),
    async check(send, upstream) {
      expect((await send()).status).toBe(503)
      expect(upstream.requests).toHaveLength(1)
    },
  },
]

/** How long an engine is given to respond whose exception says that it never does. */
const HANGS_AFTER_MS = 1000
export const HANGS = 'no response'

function withinLimit(checked: Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>()
  const limit = setTimeout(() => reject(new Error(HANGS)), HANGS_AFTER_MS)
  return Promise.race([checked, promise]).finally(() => clearTimeout(limit))
}

/** Tests every guarantee against an engine. An exception must fail as it says; one that passes is out of date. */
export function describeForwarding(engine: Engine): void {
  describe(`${engine.name} keeps the forwarding contract`, () => {
    for (const guarantee of GUARANTEES) {
      const exception = engine.exceptions[guarantee.name]
      const name =
        exception === undefined ? guarantee.name : `${guarantee.name} [exception: ${exception.reason}]`
      describe('', () => {
        let upstream: ScriptedUpstream
        let proxy: Awaited<ReturnType<Engine['start']>>
        beforeAll(async () => {
          upstream = await startScriptedUpstream(guarantee.respond)
          proxy = await engine.start(upstream.url)
        })
        afterAll(async () => {
          await proxy.stop()
          await upstream.stop()
        })
        test(name, async () => {
          const send: Send = (path = WORKSPACE_PATH, headers = {}, agent = undefined) =>
            get(proxy.port, path, headers, agent)
          const checked = guarantee.check(send, upstream)
          if (exception === undefined) return await checked
          const failed = exception.failure === HANGS ? withinLimit(checked) : checked
          await expect(failed).rejects.toThrow(exception.failure)
        })
      })
    }
  })
}
