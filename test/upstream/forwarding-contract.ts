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

/** Something that forwards what it is asked to an upstream. */
export interface Engine {
  readonly name: string
  start(upstreamUrl: string): Promise<{ port: number; stop(): Promise<void> }>
  /** What it does otherwise, by the name of the guarantee, each with its reason. */
  readonly exceptions: Readonly<Record<string, string>>
}

interface Guarantee {
  readonly name: string
  answer(request: ScriptedRequest): void
  check(ask: Ask, upstream: ScriptedUpstream): Promise<void>
}

type Ask = (path?: string, headers?: Record<string, string>, agent?: Agent) => Promise<Answer>

const head = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
const bigBody = Buffer.from(JSON.stringify({ files: 'f'.repeat(5_000_000) }))
const packed = gzipSync('{"id":"ws_1"}')

/** What any proxy in this place owes both sides. */
const GUARANTEES: readonly Guarantee[] = [
  {
    name: 'status, type and bytes of a JSON body are the upstream’s',
    answer: request => request.send(json('{"näme":"ws_1"}')),
    async check(ask) {
      const answer = await ask()
      expect(answer).toMatchObject({ status: 200, text: '{"näme":"ws_1"}' })
      expect(answer.headers).toMatchObject({ 'content-type': 'application/json', 'content-length': '16' })
    },
  },
  {
    name: 'a 201 and a 203 keep their status',
    answer: request =>
      request.send(json('{}').replace('200 OK', request.number === 0 ? '201 Made' : '203 Seen')),
    async check(ask) {
      expect((await ask()).status).toBe(201)
      expect((await ask()).status).toBe(203)
    },
  },
  {
    name: 'the target arrives with its query',
    answer: request => request.send(json('{}')),
    async check(ask, upstream) {
      await ask(`${FILES_PATH}?limit=7`)
      expect(upstream.requests.at(-1)?.target).toBe(`${FILES_PATH}?limit=7`)
    },
  },
  {
    name: 'a big body arrives whole',
    answer: request => request.send(`${head}Content-Length: ${bigBody.length}\r\n\r\n`, bigBody),
    async check(ask) {
      expect((await ask()).body.equals(bigBody)).toBe(true)
    },
  },
  {
    name: 'a body in chunks, in pieces that fall anywhere, arrives whole',
    answer: request => {
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
    async check(ask) {
      const answer = await ask()
      expect(answer).toMatchObject({ status: 200, text: '{"id":"ws_1"}', complete: true })
      expect(answer.headers['transfer-encoding']).toBe('chunked')
    },
  },
  {
    name: 'a coded body is not looked into',
    answer: request =>
      request.send(`${head}Content-Encoding: gzip\r\nContent-Length: ${packed.length}\r\n\r\n`, packed),
    async check(ask) {
      const answer = await ask(WORKSPACE_PATH, { 'Accept-Encoding': 'gzip' })
      expect(answer.headers['content-encoding']).toBe('gzip')
      expect(answer.body.equals(packed)).toBe(true)
    },
  },
  {
    name: 'a conditional request is answered 304 with its validator',
    answer: request => {
      const same = request.headers.get('if-none-match') === '"7"'
      request.send(same ? 'HTTP/1.1 304 Same\r\nETag: "7"\r\n\r\n' : json('{}', 'ETag: "7"\r\n'))
    },
    async check(ask) {
      const { etag } = (await ask()).headers
      const answer = await ask(WORKSPACE_PATH, { 'If-None-Match': etag ?? '' })
      expect(answer).toMatchObject({ status: 304, text: '', complete: true })
      expect(answer.headers.etag).toBe('"7"')
    },
  },
  {
    name: 'a 204 has no body',
    answer: request => request.send('HTTP/1.1 204 None\r\n\r\n'),
    check: async ask => expect(await ask()).toMatchObject({ status: 204, text: '', complete: true }),
  },
  {
    name: 'headers of content negotiation, caching and tracing pass both ways',
    answer: request => {
      const named =
        'Last-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\nVary: Accept\r\nCache-Control: max-age=5\r\n'
      request.send(json('{}', `${named}Link: </next>; rel=next\r\n`))
    },
    async check(ask, upstream) {
      const sent = {
        accept: 'application/json',
        'accept-language': 'de',
        'user-agent': 'curl',
        traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      }
      const answer = await ask(WORKSPACE_PATH, sent)
      expect(Object.fromEntries(upstream.requests.at(-1)?.headers ?? [])).toMatchObject(sent)
      expect(answer.headers).toMatchObject({
        'last-modified': 'Wed, 21 Oct 2026 07:28:00 GMT',
        vary: 'Accept',
        'cache-control': 'max-age=5',
        link: '</next>; rel=next',
      })
    },
  },
  {
    name: 'the client’s connection is kept for its next request',
    answer: request => request.send(json('{}')),
    async check(ask) {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      const first = await ask(WORKSPACE_PATH, {}, agent)
      const second = await ask(WORKSPACE_PATH, {}, agent)
      expect(second.socket).toBe(first.socket)
      agent.destroy()
    },
  },
  {
    name: 'the upstream’s connection is kept for the next request',
    answer: request => request.send(json('{}')),
    async check(ask, upstream) {
      await ask()
      await ask()
      expect(upstream.sockets).toHaveLength(1)
    },
  },
  {
    name: 'answers that overtake each other are not mixed up',
    answer: request => setImmediate(() => request.send(json(`"${request.target}"`))),
    async check(ask) {
      const paths = Array.from({ length: 60 }, (_, number) => `${FILES_PATH}?limit=${number + 1}`)
      const answers = await Promise.all(paths.map(path => ask(path)))
      expect(answers.map(answer => JSON.parse(answer.text))).toEqual(paths)
    },
  },
  {
    name: 'a header of the client’s own connection goes no further',
    answer: request => request.send(json('{}')),
    async check(ask, upstream) {
      await ask(WORKSPACE_PATH, {
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
    name: 'a header of the upstream’s own connection goes no further',
    answer: request => request.send(json('{}', 'Connection: keep-alive, X-Theirs\r\nX-Theirs: 1\r\n')),
    check: async ask => expect((await ask()).headers).not.toHaveProperty('x-theirs'),
  },
  {
    name: 'an answer that breaks off never looks whole',
    answer: request => request.socket.end(`${head}Content-Length: 50\r\n\r\n{"half":`),
    check: async ask => expect((await ask()).complete).toBe(false),
  },
  {
    name: 'an upstream that is gone is a 502',
    answer: () => {},
    async check(ask, upstream) {
      await upstream.stop()
      expect((await ask()).status).toBe(502)
    },
  },
  {
    name: 'a redirect passes',
    answer: request => request.send('HTTP/1.1 302 There\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n'),
    check: async ask => expect((await ask()).headers.location).toBe('/other'),
  },
  {
    name: 'a page that is not JSON passes',
    answer: request => request.send(json('<p>').replace('application/json', 'text/html')),
    check: async ask => expect((await ask()).text).toBe('<p>'),
  },
  {
    name: 'the upstream’s own 401 passes',
    answer: request => request.send(json('{}').replace('200 OK', '401 Who')),
    check: async ask => expect((await ask()).status).toBe(401),
  },
  {
    name: 'the upstream’s own error page passes',
    answer: request => request.send(json('{"stack":"at 10.0.0.1"}').replace('200 OK', '500 No')),
    check: async ask => expect((await ask()).text).toBe('{"stack":"at 10.0.0.1"}'),
  },
  {
    name: 'any header of the upstream passes',
    answer: request => request.send(json('{}', 'Server: nginx\r\nSet-Cookie: a=b\r\n')),
    check: async ask =>
      expect((await ask()).headers).toMatchObject({ server: 'nginx', 'set-cookie': ['a=b'] }),
  },
  {
    name: 'any header of the client passes',
    answer: request => request.send(json('{}')),
    async check(ask, upstream) {
      await ask(WORKSPACE_PATH, { Cookie: 'a=b', Authorization: 'Bearer x' })
      expect(upstream.requests.at(-1)?.headers.get('authorization')).toBe('Bearer x')
    },
  },
  {
    name: 'a body that only the close ends passes',
    answer: request => request.socket.end(`${head}Connection: close\r\n\r\n{}`),
    check: async ask => expect(await ask()).toMatchObject({ status: 200, text: '{}' }),
  },
  {
    name: 'what was public stays public',
    answer: request => request.send(json('{}', 'Cache-Control: public, max-age=5\r\n')),
    check: async ask => expect((await ask()).headers['cache-control']).toBe('public, max-age=5'),
  },
  {
    name: 'one request is one request, also where the answer is 503',
    answer: request => request.send('HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n'),
    async check(ask, upstream) {
      expect((await ask()).status).toBe(503)
      expect(upstream.requests).toHaveLength(1)
    },
  },
]

/** An engine may hang where it breaks a guarantee. */
const EXCEPTION_TIMEOUT_MS = 1000

/** Runs every guarantee against an engine. An exception must fail: one that no longer does is out of date. */
export function describeForwarding(engine: Engine): void {
  describe(`${engine.name} keeps the forwarding contract`, () => {
    for (const guarantee of GUARANTEES) {
      const reason = engine.exceptions[guarantee.name]
      const run = reason === undefined ? test : test.fails
      const timeoutMs = reason === undefined ? undefined : EXCEPTION_TIMEOUT_MS
      const name = reason === undefined ? guarantee.name : `${guarantee.name} [exception: ${reason}]`
      describe('', () => {
        let upstream: ScriptedUpstream
        let proxy: Awaited<ReturnType<Engine['start']>>
        beforeAll(async () => {
          upstream = await startScriptedUpstream(guarantee.answer)
          proxy = await engine.start(upstream.url)
        })
        afterAll(async () => {
          await proxy.stop()
          await upstream.stop()
        })
        run(
          name,
          () => {
            const ask: Ask = (path = WORKSPACE_PATH, headers = {}, agent = undefined) =>
              get(proxy.port, path, headers, agent)
            return guarantee.check(ask, upstream)
          },
          timeoutMs,
        )
      })
    }
  })
}
