import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { peakMegabytes } from '../support/process-memory.ts'
import { RawClient } from '../support/raw-client.ts'
import { scrapeOne } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'

/** Of all listeners by default. */
const TIMEOUT_MS = 10_000
/** For scheduling on a loaded machine. */
const LATE_MS = 6_000
/** The chart's limit of the console. */
const MEMORY_LIMIT_MEGABYTES = 384
const CROWD = 3_600
const BODY = Buffer.alloc(60_000, ' ')
const LENGTH = 65_000

let world: World
const sockets: Socket[] = []
beforeAll(async () => {
  const check = { POSTERN_GATEWAY_CHECK_HOST: '127.0.0.1', POSTERN_GATEWAY_CHECK_PORT: '0' }
  world = await startWorld(
    { ...check, POSTERN_GATEWAY_CHECK_PROXY: 'nginx' },
    { POSTERN_LEAKS_ENABLED: 'true' },
  )
})
afterAll(() => world.stop())
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
})

async function open(url: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {})
  socket.resume()
  sockets.push(socket)
  await Promise.race([once(socket, 'connect'), once(socket, 'close')])
  return socket
}

/** A request on a new connection, as a probe sends it. */
async function statusOf(url: string, path: string): Promise<number | undefined> {
  const client = new RawClient(url)
  client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
  const [answer] = await client.untilClosed()
  return answer?.status
}

test(`${CROWD} clients that send incomplete bodies neither fill the console's memory nor keep others out`, async () => {
  const { urls, process: server } = world.console
  const statuses: (number | undefined)[] = []
  for (let count = 1; count <= CROWD; count++) {
    const path = ['/nothing', '/admin/v1/import', '/leaks', '/sign-out'][count % 4]
    const socket = await open(urls.console)
    socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`)
    socket.write(`Content-Length: ${LENGTH}\r\n\r\n`)
    socket.write(BODY)
    if (count % 200 === 0) statuses.push(await statusOf(urls.console, '/sign-in'))
  }
  expect((await world.admin('GET', '/workspaces')).status).toBe(200)
  for (const path of ['/livez', '/readyz', '/metrics']) statuses.push(await statusOf(urls.ops, path))
  const peak = peakMegabytes(server.child.pid ?? 0)
  process.stdout.write(`console beside ${CROWD} incomplete bodies: ${peak.toFixed(0)} MB at most\n`)
  expect(statuses.filter(status => status !== 200)).toEqual([])
  expect(peak).toBeLessThan(MEMORY_LIMIT_MEGABYTES)
})

test('incomplete heads do not keep probes from the ops listener', async () => {
  for (const { urls } of [world.console, world.gateway]) {
    const statuses: (number | undefined)[] = []
    for (let count = 1; count <= 400; count++) {
      const socket = await open(urls.ops)
      socket.write('GET /livez HTTP/1.1\r\nHost: a\r\n')
      if (count % 20 === 0)
        statuses.push(await statusOf(urls.ops, '/livez'), await statusOf(urls.ops, '/readyz'))
    }
    expect(statuses.filter(status => status !== 200)).toEqual([])
    const closed = await scrapeOne(
      urls.ops,
      'postern_connections_closed_total{listener="ops",limit="address"}',
    )
    expect(closed).toBeGreaterThan(300)
  }
})

test('at every listener a request must arrive within 10 seconds, head and body, however its bytes trickle', async () => {
  const { console, gateway } = world
  const listeners = [
    ...[gateway.urls.gateway, gateway.urls.check, gateway.urls.ops],
    ...[console.urls.console, console.urls.internal, console.urls.ops],
  ]
  const startedAtMs = performance.now()
  const heads = [
    'GET / HTTP/1.1\r\nHost: a\r\nX: ',
    `POST /sign-out HTTP/1.1\r\nHost: a\r\nContent-Length: ${LENGTH}\r\n\r\n`,
    'POST /leaks/report HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n',
    '',
  ]
  const trickling = await Promise.all(
    listeners.flatMap(url =>
      heads.map(async head => {
        const socket = await open(url)
        socket.write(head)
        return socket
      }),
    ),
  )
  const timer = setInterval(() => {
    for (const socket of trickling) if (socket.writable) socket.write('x')
  }, 1_000)
  await until(
    'all connections have closed',
    () => trickling.every(({ closed }) => closed),
    TIMEOUT_MS + LATE_MS,
  ).finally(() => clearInterval(timer))
  process.stdout.write(
    `${trickling.length} trickled requests at ${listeners.length} listeners ended within ${Math.round(performance.now() - startedAtMs)} ms\n`,
  )
})
