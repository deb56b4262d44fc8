import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KeepAliveLoad } from '../support/keep-alive-load.ts'
import { PROGRAM, startPostern } from '../support/postern-process.ts'
import { get } from '../support/raw-client.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { scrapeOne } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
const FILES = `${WORKSPACE}/files?limit=1000`
const OLD_SPACE_MB = 64
const READERS = 40
const ANSWER_BYTES = 8 * 1024 * 1024
const SCRAPES = 300

let world: World
let key: IssuedKey

beforeAll(async () => {
  // A gateway that a busy machine disconnects verifies each key, in however long that takes it.
  world = await startWorld({ POSTERN_LOG_LEVEL: 'warn', POSTERN_KEY_SERVICE_TIMEOUT_MS: '60000' })
  key = await world.issue()
})
afterAll(() => world.stop())

function honestLoad(url: string): KeepAliveLoad {
  const bytes = get(WORKSPACE, key.secret)
  return new KeepAliveLoad({
    clients: 8,
    target: () => url,
    next: () => ({ bytes, expected: '{"id":"ws_1"}' }),
  })
}

/** Sends a request and reads nothing. */
function askAndStare(url: string, request: string): Socket {
  const { port } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
  socket.pause()
  socket.write(request)
  return socket
}

test(`with an old generation of ${OLD_SPACE_MB} MB, ${READERS} clients that do not read large responses do not affect other clients`, async () => {
  const long = jsonAnswer(200, `"${'x'.repeat(ANSWER_BYTES)}"`)
  world.upstream.answer = request =>
    request.includes('limit=1000') ? long : jsonAnswer(200, '{"id":"ws_1"}')
  const small = [process.execPath, `--max-old-space-size=${OLD_SPACE_MB}`, ...PROGRAM]
  const gateway = await startPostern('gateway', { ...world.env, POSTERN_LOG_LEVEL: 'warn' }, [], small)
  const before = world.upstream.requests.length
  const readers = Array.from({ length: READERS }, () =>
    askAndStare(gateway.urls.gateway, get(FILES, key.secret)),
  )
  await until(
    'all requests have reached the upstream',
    () => world.upstream.requests.length >= before + READERS,
  )
  const load = honestLoad(gateway.urls.gateway)
  await load.reached(3_000)
  await load.stop()
  const [resident, heap, limit] = await Promise.all(
    ['process_resident_memory_bytes', 'nodejs_heap_size_used_bytes', 'postern_heap_limit_bytes'].map(name =>
      scrapeOne(gateway.urls.ops, name),
    ),
  )
  for (const reader of readers) reader.destroy()
  process.stdout.write(
    `small heap: ${load.sent} requests beside ${READERS} readers of ${ANSWER_BYTES} bytes that read nothing, wrong ${load.wrong.length}, ` +
      `failed ${load.failed.length}; ${mb(heap)} of ${mb(limit)} MB of heap, ${mb(resident)} MB resident\n`,
  )
  expect({ wrong: load.wrong, failed: load.failed }).toEqual({ wrong: [], failed: [] })
  // The responses are not in memory: they would not fit.
  expect(resident).toBeLessThan(READERS * ANSWER_BYTES)
  expect((await gateway.process.stop('SIGTERM')).code).toBe(0)
  world.upstream.reset()
})

test('a stalled scraper, and one with a hundred scrapes a second, do not affect requests', async () => {
  const { ops, gateway } = world.gateway.urls
  const hanging = Array.from({ length: 20 }, () =>
    askAndStare(ops, 'GET /metrics HTTP/1.1\r\nHost: ops\r\n\r\n'.repeat(20)),
  )
  const load = honestLoad(gateway)
  const startedAtMs = performance.now()
  const scrapes: Promise<void>[] = []
  let answered = 0
  while (scrapes.length < SCRAPES) {
    scrapes.push(
      fetch(`${ops}/metrics`)
        .then(answer => answer.text())
        // Above 100 connections the ops listener closes new ones, which only affects the scraper.
        .then(
          () => void answered++,
          () => {},
        ),
    )
    await new Promise(resolve => setTimeout(resolve, 10))
  }
  await Promise.all(scrapes)
  const tookMs = performance.now() - startedAtMs
  await load.stop()
  for (const socket of hanging) socket.destroy()
  process.stdout.write(
    `scraped ${SCRAPES} times, ${answered} answered, in ${(tookMs / 1000).toFixed(1)} s: ${load.sent} requests, ` +
      `wrong ${load.wrong.length}, failed ${load.failed.length}\n`,
  )
  expect({ wrong: load.wrong, failed: load.failed }).toEqual({ wrong: [], failed: [] })
  expect(load.answered).toBeGreaterThan(100)
  expect((await fetch(`${ops}/readyz`)).status).toBe(200)
})

function mb(bytes: number | undefined): number {
  return Math.round((bytes ?? Number.NaN) / 1024 / 1024)
}
