import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectionsThatFit } from '../../src/run/process-limits.ts'
import { KeepAliveLoad } from '../support/keep-alive-load.ts'
import { PROGRAM, startPostern } from '../support/postern-process.ts'
import { get } from '../support/raw-client.ts'
import { scrapeOne } from '../support/scrape.ts'
import { has, PRLIMIT } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'

const OPEN_FILES = 128
const CROWD = 300
const HONEST = 8
const PATIENCE_MS = 2_000

test.each([
  ['the configured number if the limit is high enough or unknown', null, 10_000, 128, 10_000],
  ['the configured number if it fits', 20_000, 10_000, 128, 10_000],
  ['the rest after the files of the upstream and the process', 1024, 10_000, 128, 832],
  ['half if each may need an upstream connection', 128, 10_000, 128, 32],
  ['a minimum of eight', 10, 10_000, 128, 8],
])('%s', (_, limit, wanted, upstream, fitting) => {
  expect(connectionsThatFit(limit, wanted, upstream)).toBe(fitting)
})

describe.skipIf(!has(PRLIMIT))(
  `a gateway limited to ${OPEN_FILES} open files, with ${CROWD} silent connections`,
  () => {
    let world: World
    beforeAll(async () => {
      world = await startWorld()
    })
    afterAll(() => world.stop())

    test('keeps serving connected and new clients, answers probes, and logs the problem', async () => {
      const { secret } = await world.issue()
      const limited = ['prlimit', `--nofile=${OPEN_FILES}:${OPEN_FILES}`, process.execPath, ...PROGRAM]
      const env = { ...world.env, POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: String(PATIENCE_MS) }
      const { process: gateway, urls } = await startPostern('gateway', env, [], limited)
      const load = new KeepAliveLoad({
        clients: HONEST,
        target: () => urls.gateway,
        next: () => ({ bytes: get('/api/v1/workspaces/ws_1', secret), expected: '{"id":"ws_1"}' }),
      })
      await load.reached(200)

      const crowd = new Crowd(urls.gateway)
      await crowd.fill(CROWD)
      expect(await serves(urls.gateway, secret)).toBe(true)
      const logged = await gateway.logged(line => String(line['msg']).startsWith('connection accept failing'))
      await load.reached(load.answered + 1_000)
      for (const path of ['/livez', '/readyz', '/metrics'])
        expect((await fetch(urls.ops + path)).status).toBe(200)
      const openFiles = await scrapeOne(urls.ops, 'process_open_fds')

      crowd.leave()
      await load.stop()
      process.stdout.write(
        `out of files: ${load.sent} requests of ${HONEST} clients beside ${CROWD} connections, wrong ${load.wrong.length}, ` +
          `failed ${load.failed.length}, ${openFiles} of ${OPEN_FILES} files open\n`,
      )
      expect({ wrong: load.wrong, failed: load.failed }).toEqual({ wrong: [], failed: [] })
      expect(logged['reason']).toContain('reached; closing new connections')
      expect(gateway.log.filter(line => line['msg'] === 'connection accept failing').length).toBeLessThan(5)
      expect((await gateway.stop('SIGTERM')).code).toBe(0)
    })

    test('closes silent connections after the timeout by itself', async () => {
      const limited = ['prlimit', `--nofile=${OPEN_FILES}:${OPEN_FILES}`, process.execPath, ...PROGRAM]
      const env = { ...world.env, POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: String(PATIENCE_MS) }
      const { process: gateway, urls } = await startPostern('gateway', env, [], limited)
      const crowd = new Crowd(urls.gateway)
      await crowd.fill(CROWD)
      await until('the silent connections have closed', () => crowd.isClosed)
      await gateway.stop()
    })
  },
)

/** Connections that send nothing. */
class Crowd {
  readonly #port: number
  readonly #sockets: Socket[] = []

  constructor(url: string) {
    this.#port = Number(new URL(url).port)
  }

  async fill(count: number): Promise<void> {
    const made = Array.from({ length: count }, async () => {
      const socket = connect(this.#port, '127.0.0.1')
        .on('error', () => {})
        .resume()
      this.#sockets.push(socket)
      await Promise.race([once(socket, 'connect'), once(socket, 'close')])
    })
    await Promise.all(made)
  }

  get isClosed(): boolean {
    return this.#sockets.every(({ closed }) => closed)
  }

  leave(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}

async function serves(url: string, secret: string): Promise<boolean> {
  try {
    const headers = { authorization: `Bearer ${secret}`, connection: 'close' }
    return (await fetch(`${url}/api/v1/workspaces/ws_1`, { headers })).status === 200
  } catch {
    return false
  }
}
