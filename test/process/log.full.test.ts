import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { KeepAliveLoad } from '../support/keep-alive-load.ts'
import { type Listening, PosternProcess, startPostern } from '../support/postern-process.ts'
import { get } from '../support/raw-client.ts'
import { scrapeOne } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'

const DROPPED = 'postern_log_lines_dropped_total'
/** More than a gateway logs of anything but requests in a run of this test. */
const OTHER_LINES = 50
const WORKSPACE = '/api/v1/workspaces/ws_1'

let world: World
let gateway: Listening
let load: KeepAliveLoad

beforeAll(async () => {
  world = await startWorld()
})
afterAll(() => world.stop())

/** Of a gateway of its own, which ends with the test. */
async function startLoad(): Promise<void> {
  const { secret } = await world.issue()
  gateway = await startPostern('gateway', world.env)
  onTestFinished(async () => void (await gateway.process.stop()))
  load = new KeepAliveLoad({
    clients: 8,
    target: () => gateway.urls.gateway,
    next: () => ({ bytes: get(WORKSPACE, secret), expected: '{"id":"ws_1"}' }),
  })
}

async function untilDropped(lines: number): Promise<void> {
  await until(
    'log lines are dropped',
    async () => (await scrapeOne(gateway.urls.ops, DROPPED)) >= lines,
    60_000,
  )
}

function report(what: string, dropped: number): void {
  process.stdout.write(
    `log, ${what}: ${load.sent} requests, wrong ${load.wrong.length}, failed ${load.failed.length}, lines dropped ${dropped}\n`,
  )
}

function expectAllAnswered(): void {
  expect({ wrong: load.wrong, failed: load.failed, open: load.sent - load.answered }).toEqual({
    wrong: [],
    failed: [],
    open: 0,
  })
}

test('if the log reader stalls, requests are served, lines are dropped and counted, and the log says so once it is read again', async () => {
  await startLoad()
  gateway.process.child.stdout?.pause()
  await untilDropped(1000)
  // The rest of the buffer holds a few thousand lines; every later line is dropped.
  const before = await scrapeOne(gateway.urls.ops, 'process_resident_memory_bytes')
  await untilDropped(11_000)
  const after = await scrapeOne(gateway.urls.ops, 'process_resident_memory_bytes')
  await load.stop()
  const dropped = await scrapeOne(gateway.urls.ops, DROPPED)
  report('the reader stalls', dropped)
  expectAllAnswered()
  expect(after - before).toBeLessThan(32 * 1024 * 1024)

  gateway.process.child.stdout?.resume()
  await until(
    'all buffered lines have been read',
    () => gateway.process.log.filter(isRequest).length + dropped >= load.sent,
  )
  const { exitCode } = gateway.process.child
  gateway.process.child.kill('SIGTERM')
  const logged = await gateway.process.logged(line => line['dropped'] !== undefined)
  expect([exitCode, logged['dropped']]).toEqual([null, dropped])
  expect((await gateway.process.exited).code).toBe(0)
  const written = gateway.process.log.filter(isRequest)
  expect(new Set(written.map(({ requestId }) => requestId)).size).toBe(written.length)
  // Lines that are not of a request are counted too when they are dropped.
  const uncounted = load.sent - written.length
  expect(uncounted).toBeLessThanOrEqual(dropped)
  expect(uncounted).toBeGreaterThan(dropped - OTHER_LINES)
})

test('if the log reader has exited, requests are served, and the process shuts down in order', async () => {
  await startLoad()
  await load.reached(100)
  gateway.process.child.stdout?.destroy()
  await untilDropped(1000)
  await load.stop()
  report('the reader has exited', await scrapeOne(gateway.urls.ops, DROPPED))
  expectAllAnswered()
  expect((await gateway.process.stop('SIGTERM')).code).toBe(0)
})

test.each([['openapi'], ['config print']])('`postern %s | head -1` exits without an error', async command => {
  const printing = new PosternProcess(command.split(' '), {})
  printing.child.stdout?.destroy()
  expect(await printing.exited).toMatchObject({ code: 141, stderr: '' })
})

function isRequest(line: Record<string, unknown>): boolean {
  return line['msg'] === 'request'
}
