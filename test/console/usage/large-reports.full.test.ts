import { expect, onTestFinished, test } from 'vitest'
import { startWorld, type World } from '../../support/world.ts'

/** Half of the memory of the chart's console. */
const HEAP = '--max-old-space-size=192'
const REPORT_BYTES = 6 * 1024 * 1024
const ENTRIES = 10_000

async function start(): Promise<World> {
  const world = await startWorld({}, { NODE_OPTIONS: HEAP })
  onTestFinished(() => world.stop())
  return world
}

async function report(world: World, body: string) {
  const response = await fetch(`${world.console.urls.internal}/internal/v1/usage`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${world.env['POSTERN_KEY_SERVICE_TOKEN']}`,
    },
    body,
  })
  return { status: response.status, text: await response.text() }
}

const entries = (entry: string, bytes: number) => entry.repeat(Math.floor(bytes / entry.length))

test('no usage report ends a console in the heap of the chart, or gets a long response', async () => {
  const world = await start()
  const fillings = ['1,', '{},', '[],', '"",', '[', '{"a":', '"\\\\",', 'null,']
  for (const filling of fillings) {
    for (const list of ['counts', 'refusals', 'omittedRefusals']) {
      const body = `{"gateway":"g","sequence":1,"${list}":[${entries(filling, REPORT_BYTES - 200)}1]}`
      const { status, text } = await report(world, body)
      expect([filling, status, text.length < 300]).toEqual([filling, 413, true])
    }
  }
  const longer = await report(
    world,
    `{"gateway":"g","sequence":1,"counts":[${entries('1,', 2 * REPORT_BYTES)}1]}`,
  )
  expect(longer.status).toBe(413)
  const refused = await report(world, `{"gateway":"g","sequence":1,"counts":[${Array(ENTRIES).fill('{}')}]}`)
  expect([refused.status, refused.text.length < 3_000]).toEqual([200, true])
  expect(JSON.parse(refused.text)).toMatchObject({ refused: ENTRIES, requests: 0 })
  expect(world.console.process.child.exitCode).toBeNull()
})

test('reports of the longest entries that are valid are stored, many at a time', async () => {
  const world = await start()
  const keys = await Promise.all(Array.from({ length: 50 }, () => world.issue()))
  const refusals = Array.from({ length: ENTRIES }, (_, index) => ({
    ...{
      at: Date.now(),
      keyId: keys[index % keys.length]?.id,
      route: 'f'.repeat(32),
      address: '2001:db8:1::/48',
    },
    ...{ code: 'c'.repeat(64), reason: 'r'.repeat(64), requestId: 'i'.repeat(128) },
  }))
  const sent = Array.from({ length: 5 }, (_, sender) =>
    report(world, JSON.stringify({ gateway: `g:${sender}`, sequence: 1, refusals })),
  )
  // One that waits too long for the others is to be sent again.
  for (const { status } of await Promise.all(sent)) expect([200, 503]).toContain(status)
  expect(world.console.process.child.exitCode).toBeNull()
  expect(await report(world, '{"gateway":"g:9","sequence":1,"counts":[]}')).toEqual({
    status: 200,
    text: '{}',
  })
})
