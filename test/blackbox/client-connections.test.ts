import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import { loadClosed } from '../support/closed-loop.ts'
import { startPostern } from '../support/postern-process.ts'
import { residentMegabytes } from '../support/process-memory.ts'
import { field, get, RawClient } from '../support/raw-client.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { runs } from '../support/runs.ts'
import { scrapeOne } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
const TINY = 'GET / HTTP/1.1\r\n\r\n'
const TINY_WITH_HOST = 'GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n'
const HEADERS_TIMEOUT_MS = 2_000
const MAX_UNANSWERED = 8
/** Far more than one read of a socket takes. */
const MANY = runs(5_000, 20_000)
/** Allowance for scheduling delays on a loaded machine. */
const LATE_MS = 6_000

let world: World
let key: IssuedKey
const clients: Socket[] = []

beforeAll(async () => {
  world = await startWorld({
    POSTERN_LOG_LEVEL: 'error',
    POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: String(HEADERS_TIMEOUT_MS),
    POSTERN_GATEWAY_MAX_LOOP_DELAY_MS: '60000',
    POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: '30000',
  })
  key = await world.issue()
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())
afterEach(() => {
  for (const client of clients.splice(0)) client.destroy()
})

const inFlight = () => scrapeOne(world.gateway.urls.ops, 'postern_http_requests_in_flight')
const listeners = () => [
  ['gateway', world.gateway.urls.gateway] as const,
  ['console', world.console.urls.console] as const,
]

/** A client that reads nothing until it is resumed. */
function openUnread(url: string): Socket {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', noDelay: true })
  socket.on('error', () => {}).pause()
  clients.push(socket)
  return socket
}

/** Sends the same bytes endlessly. @returns number of bytes that the socket has accepted */
function flood(socket: Socket, bytes: string): () => number {
  const block = Buffer.from(bytes.repeat(Math.ceil(65_536 / bytes.length)), 'latin1')
  const write = () => {
    while (!socket.destroyed && socket.write(block));
  }
  socket.on('drain', write)
  write()
  return () => socket.bytesWritten - socket.writableLength
}

/** Results of well-behaved clients during an attack, which begins when they are connected. */
async function serveHonestly(attack: string, begin: () => void, accepted = 400): Promise<void> {
  const { answers, statuses, p99Ms } = await loadClosed(world.gateway.urls.gateway, {
    target: WORKSPACE,
    secret: key.secret,
    connections: 4,
    accepted,
    onConnected: begin,
  })
  const failed = answers - (statuses.get(200) ?? 0)
  process.stdout.write(
    `${attack}: honest requests sent ${answers}, failed ${failed}, p99 ${p99Ms.toFixed(1)} ms\n`,
  )
  expect(failed).toBe(0)
}

/** Sockets of the public port that the process still holds. A client that does not read cannot observe the close itself. */
function clientSockets(): number {
  const port = Number(new URL(world.gateway.urls.gateway).port).toString(16).toUpperCase().padStart(4, '0')
  const [, ...lines] = readFileSync('/proc/net/tcp', 'utf8').trimEnd().split('\n')
  return lines.filter(line => {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/)
    const isListening = state === '0A'
    return local?.endsWith(`:${port}`) && !isListening && inode !== '0'
  }).length
}

async function expectDisconnected(): Promise<void> {
  const sinceMs = performance.now()
  await until(
    'the gateway has closed the connections',
    () => clientSockets() === 0,
    HEADERS_TIMEOUT_MS + LATE_MS,
  )
  process.stdout.write(`the connections ended after ${Math.round(performance.now() - sinceMs)} ms\n`)
}

describe('a connection has a bounded number of responses outstanding', () => {
  test('three clients that each pipeline 20,000 requests and read nothing are disconnected, and other clients are served', async () => {
    const attackers = Array.from({ length: 3 }, () => openUnread(world.gateway.urls.gateway))
    let [isOver, most] = [false, 0]
    const watch = async () => {
      while (!isOver) most = Math.max(most, await inFlight())
    }
    let watching: Promise<void> | undefined
    await serveHonestly('3 x 20,000 pipelined requests, never read', () => {
      for (const socket of attackers) socket.write(TINY_WITH_HOST.repeat(20_000))
      watching = watch()
    })
    isOver = true
    await watching
    process.stdout.write(`requests in flight at most ${most}\n`)
    expect(most).toBeLessThanOrEqual(3 * MAX_UNANSWERED + 4 + 1)
    await expectDisconnected()
  })

  test('clients that do not read their responses, or the last response of a connection, are disconnected within the timeout', async () => {
    world.upstream.answer = () => jsonAnswer(200, JSON.stringify('x'.repeat(20_000_000)))
    const attackers = Array.from({ length: 6 }, () => openUnread(world.gateway.urls.gateway))
    for (const [number, socket] of attackers.entries()) {
      const request = (...lines: string[]) =>
        get(WORKSPACE, key.secret, `User-Agent: client-${number}.`, ...lines)
      socket.write(number % 2 === 0 ? request().repeat(40) : request('Connection: close'))
    }
    // Not by the number in flight: on a busy machine, the first ones end before the last ones begin.
    const isForwarded = (number: number) =>
      world.upstream.requests.some(request => request.includes(`client-${number}.`))
    await until('each client has a response waiting', () => [...attackers.keys()].every(isForwarded))
    await expectDisconnected()
    await until('nothing is in flight', async () => (await inFlight()) === 0)
  })

  test('a slow reader that keeps reading gets the whole response, however long it takes', async () => {
    const body = JSON.stringify('x'.repeat(16_000_000))
    world.upstream.answer = () => jsonAnswer(200, body)
    const socket = openUnread(world.gateway.urls.gateway)
    socket.write(get(WORKSPACE, key.secret))
    const startedAtMs = performance.now()
    let received = 0
    socket.on('data', chunk => {
      received += chunk.length
      // At this rate the response takes 1.5 times as long as the timeout for a client that reads nothing.
      const dueMs = (received / body.length) * HEADERS_TIMEOUT_MS * 1.5
      const aheadMs = dueMs - (performance.now() - startedAtMs)
      if (aheadMs < 1) return
      socket.pause()
      setTimeout(() => socket.resume(), aheadMs)
    })
    socket.resume()
    await until('the whole response has been read', () => received > body.length, 40_000)
    expect(performance.now() - startedAtMs).toBeGreaterThan(HEADERS_TIMEOUT_MS)
  })

  test('a slow request followed by 2,000 tiny ones on one connection does not affect other clients', async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    world.upstream.hold = request => (request.includes('slow') ? held : undefined)
    const attacker = new RawClient(world.gateway.urls.gateway)
    const bytes = get(WORKSPACE, key.secret, 'User-Agent: slow') + TINY_WITH_HOST.repeat(2_000)
    await serveHonestly('a slow request followed by 2,000 tiny ones', () => attacker.send(bytes))
    await until('only the slow request is in flight', async () => (await inFlight()) === 1)
    release()
    expect((await attacker.answers(2_001)).length).toBe(2_001)
    attacker.end()
  })

  test(`50 and ${MANY} pipelined requests are answered in order`, async () => {
    for (const [name, url] of listeners()) {
      for (const count of [50, MANY]) {
        const client = openUnread(url)
        let received = ''
        client.on('data', chunk => {
          received += chunk.toString('latin1')
        })
        const ids = Array.from({ length: count }, (_, index) => `r-${index}`)
        client.write(
          ids.map(id => `GET /nothing HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${id}\r\n\r\n`).join(''),
        )
        client.resume()
        await until(
          `${name}: the last response has arrived`,
          () => received.includes(`: ${ids.at(-1)}\r\n`),
          40_000,
        )
        expect([...received.matchAll(/x-request-id: (r-\d+)/g)].map(([, id]) => id)).toEqual(ids)
        client.destroy()
      }
    }
  })
})

describe('the gateway stops reading a connection that it is about to close', () => {
  test('endless tiny requests after a request with a body: memory stays flat and the client is throttled', async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    world.upstream.hold = request => (request.includes('slow') ? held : undefined)
    const pid = world.gateway.process.child.pid ?? 0
    const attackers = Array.from({ length: 3 }, () => openUnread(world.gateway.urls.gateway))
    const before = residentMegabytes(pid)
    let taken: (() => number)[] = []
    const begin = () => {
      taken = attackers.map(socket => {
        socket.write(get(WORKSPACE, key.secret, 'User-Agent: slow'))
        socket.write(get(WORKSPACE, key.secret, 'Content-Length: 1'))
        return flood(socket, TINY)
      })
    }
    await serveHonestly('endless tiny requests after a request with a body', begin, 1_000)
    expect(world.upstream.requests.filter(request => request.includes('slow'))).toHaveLength(attackers.length)
    const megabytes = taken.map(bytes => bytes() / 1e6)
    const grown = residentMegabytes(pid) - before
    process.stdout.write(
      `bytes accepted: ${megabytes.map(one => one.toFixed(1))} MB, memory grown by ${grown.toFixed(0)} MB\n`,
    )
    // The buffers of both kernels; without a bound it would be hundreds of megabytes.
    expect(Math.max(...megabytes)).toBeLessThan(20)
    expect(grown).toBeLessThan(100)
    const received = attackers.map(socket => {
      const chunks: string[] = []
      socket.on('data', chunk => chunks.push(chunk.toString('latin1'))).resume()
      return chunks
    })
    release()
    await until('each client has both responses', () =>
      received.every(chunks => /HTTP\/1\.1 200[\s\S]*HTTP\/1\.1 400/.test(chunks.join(''))),
    )
  })

  test('a CONNECT with an offer to upgrade ends its connection, whether more bytes follow in the same segment or the next', async () => {
    const marker = get(`${WORKSPACE}/files?limit=7`, key.secret)
    const connect =
      'CONNECT evil:443 HTTP/1.1\r\nHost: gw\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
    for (const [, url] of listeners()) {
      const client = new RawClient(url)
      client.send(`${TINY_WITH_HOST}${connect}X: ${'y'.repeat(100)}`)
      await client.answers(2)
      client.send(`\r\n\r\n${marker}`)
      const answers = await client.untilClosed()
      expect(answers.map(({ status }) => status)).toEqual([404, 404])
      expect(answers[1] && field(answers[1], 'connection')).toBe('close')
    }
    expect(world.upstream.requests).toEqual([])
  })

  test('a CONNECT followed by a reset stops neither process, on any of their listeners', async () => {
    const all = [
      ...listeners(),
      ['internal', world.console.urls.internal] as const,
      ['ops', world.gateway.urls.ops] as const,
      ['ops of the console', world.console.urls.ops] as const,
    ]
    for (const [name, url] of all) {
      const client = new RawClient(url)
      client.send('CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n')
      const [answer] = await client.answers(1)
      expect([name, answer?.status]).toEqual([name, expect.any(Number)])
      client.socket.resetAndDestroy()
    }
    for (const [name, url] of all) {
      const again = new RawClient(url)
      again.send(TINY_WITH_HOST)
      expect([name, (await again.answers(1)).length]).toEqual([name, 1])
      again.end()
    }
    for (const { process } of [world.gateway, world.console]) {
      expect(process.log.filter(line => Number(line['level']) >= 50)).toEqual([])
    }
  })

  test('bytes after a request with Connection: close are not read', async () => {
    for (const [, url] of listeners()) {
      const client = new RawClient(url)
      client.send(`GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n${TINY_WITH_HOST}`)
      expect((await client.untilClosed()).length).toBe(1)
    }
  })
})

describe('a client that half-closes after its requests', () => {
  const asked = (url: string, request: string) =>
    Promise.all(
      Array.from({ length: 20 }, async () => {
        const client = new RawClient(url)
        client.socket.end(request)
        return (await client.untilClosed()).map(({ status, body: { length } }) => `${status} ${length}`)
      }),
    )

  test('gets complete responses of the gateway and of the console, 20 of 20', async () => {
    const unknown = mintSecret('wsk_', randomBytes(32), importSigningSecret(randomBytes(32))).reveal()
    const { gateway } = world.gateway.urls
    const own = await asked(gateway, get('/api/v1/auth', key.secret).repeat(3))
    expect(own.flat().filter(answer => answer.startsWith('200 '))).toHaveLength(60)
    for (const [request, status] of [
      [get('/nothing'), 404],
      [get(WORKSPACE), 401],
      [get(WORKSPACE, unknown), 401],
      [get('/api/v1/workspaces/ws_2', key.secret), 404],
    ] as const) {
      const statuses = (await asked(gateway, request)).flat().map(answer => Number(answer.split(' ')[0]))
      expect(statuses).toEqual(Array.from({ length: 20 }, () => status))
    }
    const ofConsole = await asked(world.console.urls.console ?? '', TINY_WITH_HOST)
    expect(ofConsole.flat()).toHaveLength(20)
  })

  test('has left if a request waits for the upstream, also one whose key is still looked up: no response, no request upstream remains', async () => {
    world.upstream.hold = () => new Promise(() => {})
    const keys = await Promise.all(Array.from({ length: 20 }, () => world.issue()))
    const { ended } = world.upstream
    const aborts = () =>
      scrapeOne(world.gateway.urls.ops, 'postern_http_client_aborts_total{phase="waiting"}')
    const before = await aborts()
    const answers = await Promise.all(
      keys.map(async ({ secret }) => {
        const client = new RawClient(world.gateway.urls.gateway)
        client.socket.end(get(WORKSPACE, secret))
        return client.untilClosed()
      }),
    )
    expect(answers.flat()).toEqual([])
    await until('nothing is in flight', async () => (await inFlight()) === 0)
    expect((await aborts()) - before).toBe(20)
    await until(
      'the upstream connections are closed',
      () => world.upstream.ended - ended >= world.upstream.requests.length,
    )
  })

  test('gets complete responses of the upstream with gateway.abortOnClose: false, 20 of 20', async () => {
    const patient = await startPostern('gateway', { ...world.env, POSTERN_GATEWAY_ABORT_ON_CLOSE: 'false' })
    onTestFinished(async () => {
      await patient.process.stop()
    })
    const body = JSON.stringify('x'.repeat(300_000))
    world.upstream.answer = () => jsonAnswer(200, body)
    world.upstream.hold = () => new Promise(resolve => setTimeout(resolve, 20))
    const forwarded = await asked(patient.urls.gateway, get(WORKSPACE, key.secret))
    expect(forwarded).toEqual(Array.from({ length: 20 }, () => [`200 ${body.length}`]))
  })
})

describe('responses leave in request order', () => {
  test('issuing a key is answered before the malformed bytes that follow it are rejected', async () => {
    const body = JSON.stringify({ name: 'test', scopes: ['files:read'] })
    const request = [
      'POST /admin/v1/workspaces/ws_9/keys HTTP/1.1',
      'Host: a',
      `Authorization: Bearer ${world.cliEnv['POSTERN_ADMIN_TOKEN']}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      '',
      body,
    ].join('\r\n')
    for (const garbage of ['\x00\x01 garbage\r\n\r\n', 'GET  / HTTP/1.1\r\nHost: a\r\n\r\n']) {
      const client = new RawClient(world.console.urls.console ?? '')
      client.send(request + garbage)
      const answers = await client.untilClosed()
      expect(answers.map(({ status }) => status)).toEqual([201, 400])
      expect(JSON.parse(answers[0]?.body ?? '')).toMatchObject({ secret: expect.stringMatching(/^wsk_/) })
    }
  })
})

describe('a malformed request gets a response that names the problem', () => {
  test.each([
    ['two spaces before the target', 'GET  / HTTP/1.1\r\nHost: a\r\n\r\n', 400, 'invalid_request'],
    ['two spaces after the target', 'GET /  HTTP/1.1\r\nHost: a\r\n\r\n', 400, 'invalid_request'],
    ['a thousand spaces', `GET ${' '.repeat(1_000)}/ HTTP/1.1\r\nHost: a\r\n\r\n`, 400, 'invalid_request'],
    ['no Host', 'GET / HTTP/1.1\r\n\r\n', 400, 'invalid_request'],
    ['an unknown expectation', 'GET / HTTP/1.1\r\nHost: a\r\nExpect: y\r\n\r\n', 417, 'invalid_request'],
    ['an unknown version', 'GET / HTTP/1.2\r\nHost: a\r\n\r\n', 400, 'invalid_request'],
    [
      'a URL above every limit',
      `GET /${'x'.repeat(40_000)} HTTP/1.1\r\nHost: a\r\n\r\n`,
      414,
      'request_too_large',
    ],
  ])('%s', async (_what, bytes, status, code) => {
    for (const [, url] of listeners()) {
      const client = new RawClient(url)
      client.send(TINY_WITH_HOST)
      await client.answers(1)
      for (const half of [bytes.slice(0, 7), bytes.slice(7)]) {
        client.send(half)
        await new Promise(resolve => setImmediate(resolve))
      }
      const answers = await client.untilClosed()
      expect(answers.map(answer => answer.status)).toEqual([404, status])
      expect(JSON.parse(answers[1]?.body ?? '')).toMatchObject({ code })
    }
  })

  test('a head that arrives too late gets 408; a connection that sends nothing closes without a response', async () => {
    const client = new RawClient(world.gateway.urls.gateway)
    client.send('GET / HTTP/1.1\r\nHost')
    const silent = new RawClient(world.gateway.urls.gateway)
    const [answer, ...more] = await client.untilClosed()
    expect(more).toEqual([])
    expect([answer?.status, JSON.parse(answer?.body ?? '{}')]).toMatchObject([
      408,
      { code: 'invalid_request' },
    ])
    expect(await silent.untilClosed()).toEqual([])
  })
})
