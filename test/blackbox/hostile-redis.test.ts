import { readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { CHANGES_CHANNEL, recordKeyName } from '../../src/domain/wire.ts'
import type { GatewaysResponse } from '../support/admin-response.ts'
import { type LoadFigures, loadClosed } from '../support/closed-loop.ts'
import { confirmedByAll, STARVED_MS } from '../support/confirmed-by-all.ts'
import { measured } from '../support/measured-again.ts'
import { changeMessage, heartbeatMessage, OTHER_MESSAGE_KEY } from '../support/messages.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { send } from '../support/steady-load.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const HUGE_BYTES = 512 * 1024 * 1024
const HOUR_MS = 3_600_000

let world: World
let key: IssuedKey
let subscriber: World['redis']['admin']
/** Every message that the console published, as a Redis subscriber receives it. */
const published: string[] = []

const honest = (accepted = 600) =>
  loadClosed(world.gateway.urls.gateway, {
    target: '/api/v1/auth',
    secret: key.secret,
    connections: 4,
    accepted,
  })
const publish = (text: string) => world.redis.admin.publish(CHANGES_CHANNEL, text)
const gateway = () => scrape(world.gateway.urls.ops)
const received = async (result: string) =>
  (await gateway()).get(`postern_key_invalidations_total{result="${result}"}`) ?? 0
const connected = async () => (await gateway()).get('postern_key_invalidation_connected')
const heartbeats = () => published.filter(text => text.includes('"beat"'))

beforeAll(async () => {
  world = await startWorld({
    POSTERN_LOG_LEVEL: 'warn',
    // Keys that cannot be verified are rejected at once, so that a key made unavailable by a message is noticed.
    POSTERN_KEYS_STALE_SECONDS: '0',
    // Redis stalls while it allocates 512 MB.
    POSTERN_REDIS_COMMAND_TIMEOUT_MS: '5000',
    // Overload shedding depends on the machine and has its own test.
    POSTERN_GATEWAY_MAX_LOOP_DELAY_MS: '60000',
  })
  subscriber = world.redis.admin.duplicate()
  subscriber.on('message', (_: string, text: string) => void published.push(text))
  await subscriber.subscribe(CHANGES_CHANNEL)
  key = await world.issue()
  await honest(2_000)
})
afterAll(async () => {
  subscriber.disconnect()
  await world.stop()
})

function report(what: string, { answers, statuses, p99Ms }: LoadFigures): void {
  const failed = answers - (statuses.get(200) ?? 0)
  const figures = `${answers} honest requests sent, ${failed} failed, p99 ${p99Ms.toFixed(1)} ms`
  process.stdout.write(`\n${what}: ${figures}\n`)
  expect(failed).toBe(0)
}

test('a forged version makes no live key unavailable', async () => {
  const digest = digestKey(key.secret)
  const forged = [null, OTHER_MESSAGE_KEY].flatMap(signer =>
    [2, 1_000, 2_147_483_647].map(version => changeMessage({ digest, version, atMs: Date.now() }, signer)),
  )
  const load = honest(1_500)
  for (let round = 0; round < 500; round++) await Promise.all(forged.map(publish))
  await until('all messages have arrived', async () => (await received('unverified')) >= 500 * forged.length)
  report(`${500 * forged.length} forged changes of the key in use`, await load)
  expect(await send(world.gateway.urls.gateway, key.secret)).toBe('200')
})

test('a replayed genuine change makes no live key unavailable', async () => {
  const digest = digestKey(key.secret)
  const issued = published.find(text => text.includes(digest)) ?? ''
  expect(JSON.parse(issued)).toMatchObject({ digest, version: 1 })
  const load = honest(1_500)
  for (let round = 0; round < 2_000; round++) await publish(issued)
  await until('all messages have arrived', async () => (await received('repeated')) >= 2_000)
  report('2000 replays of a genuine change', await load)
})

/** @returns a key that the gateway knows, with versions on the channel that no console sends */
async function keyWithForgedVersions(): Promise<IssuedKey> {
  const known = await world.issue()
  expect(await send(world.gateway.urls.gateway, known.secret)).toBe('200')
  const before = await received('unreadable')
  const digest = digestKey(known.secret)
  for (const version of [2 ** 31, 2 ** 53 - 1]) {
    await publish(JSON.stringify({ digest, version, at: Date.now() }))
  }
  await until('both messages have arrived', async () => (await received('unreadable')) >= before + 2)
  return known
}

test('a version that the console would reject does not stop confirmations', async () => {
  const { gateways, revoked } = await confirmedByAll({
    pids: () => world.pids,
    change: async () => {
      await until('the gateway is connected', async () => (await connected()) === 1)
      const revoked = await keyWithForgedVersions()
      const { json } = await world.admin('POST', `/keys/${revoked.id}/revoke?wait=1`)
      return { revoked, gateways: json['gateways'] as GatewaysResponse }
    },
  })
  expect(gateways).toMatchObject({ confirmed: 1, verifying: 0, silent: [] })
  expect(await send(world.gateway.urls.gateway, revoked.secret)).toBe('key_revoked')
})

test('forged heartbeats, from the future or the past, disconnect no gateway', async () => {
  const load = honest(1_500)
  const readings = await measured({
    what: 'a gateway that gets forged heartbeats',
    pids: () => world.pids,
    measure: async () => {
      await until('the gateway is connected', async () => (await connected()) === 1)
      for (const aheadMs of [HOUR_MS, -HOUR_MS, 0]) {
        const sender = (JSON.parse(heartbeats()[0] ?? '{}') as { beat: string }).beat
        const forged = { sender, monotonicMs: 9_000_000_000, atMs: Date.now() + aheadMs }
        for (const signer of [null, OTHER_MESSAGE_KEY]) await publish(heartbeatMessage(forged, signer))
        await publish('noise')
      }
      const before = heartbeats().length
      const readings: unknown[] = []
      // Longer than the second after which a gateway without heartbeats counts as disconnected.
      await until('six genuine heartbeats are published', async () => {
        readings.push(await connected())
        return heartbeats().length >= before + 6
      })
      return readings
    },
    // One that gets no processor for about a second is disconnected without any forgery.
    missedByMs: seen => (seen.every(reading => reading === 1) ? 0 : STARVED_MS),
  })
  expect(new Set(readings)).toEqual(new Set([1]))
  report('forged heartbeats', await load)
})

test('forged heartbeats, and replayed genuine ones, do not connect a gateway', async () => {
  const console_ = world.console.process.child
  console_.kill('SIGSTOP')
  try {
    await until('the gateway is disconnected', async () => (await connected()) === 0)
    const recorded = heartbeats().slice(-20)
    expect(recorded.length).toBeGreaterThan(5)
    for (const text of recorded) {
      const { beat, monotonic } = JSON.parse(text) as { beat: string; monotonic: number }
      const forged = { sender: beat, monotonicMs: monotonic + 1_000, atMs: Date.now() }
      const before = await received('unverified')
      // The gateway resubscribes from time to time; a message published during that time reaches no subscriber.
      await until('both arrive', async () => {
        await publish(text)
        await publish(heartbeatMessage(forged, null))
        expect(await connected()).toBe(0)
        return (await received('unverified')) > before
      })
      expect(await connected()).toBe(0)
    }
  } finally {
    console_.kill('SIGCONT')
  }
  await until('the gateway is connected again', async () => (await connected()) === 1)
})

test("a 512 MB value stored under one key's name costs no memory and delays no other key", async () => {
  // The heap of a young process grows anyway, so peaks are compared after warm-up.
  let calm = await askedBesideLoad()
  for (let round = 0; round < 4; round++) calm = await askedBesideLoad()
  const { figures, peakMb, longestMs, unreadable } = await measured({
    what: 'a value of 512 MB in Redis',
    pids: () => world.pids,
    measure: async () => {
      const victim = await world.issue()
      const name = recordKeyName(digestKey(victim.secret))
      await world.redis.admin.setrange(name, HUGE_BYTES - 1, 'x')
      expect(await world.redis.admin.strlen(name)).toBe(HUGE_BYTES)
      await until('the gateway is connected', async () => (await connected()) === 1)
      const before = await unreadableRecords()
      const asked = await askedBesideLoad(victim)
      await world.redis.admin.del(name)
      return { ...asked, unreadable: (await unreadableRecords()) - before }
    },
    // A gateway that gets no processor for a second is disconnected, and asks the key service instead.
    missedByMs: ({ unreadable }) => (unreadable === 1 ? 0 : STARVED_MS),
  })
  report('a value of 512 MB in Redis', figures)
  const grownMb = peakMb - calm.peakMb
  const time = `${longestMs.toFixed(0)} ms (${calm.longestMs.toFixed(0)} ms without it)`
  process.stdout.write(`memory grew by ${grownMb.toFixed(1)} MB; new keys were served within ${time}\n`)
  expect(grownMb).toBeLessThan(20)
  expect(unreadable).toBe(1)
})

async function unreadableRecords(): Promise<number> {
  return sumOf(await gateway(), 'postern_key_cache_lookups_total', 'tier="redis"', 'result="unreadable"')
}

/** Load on a known key, and concurrently one request with each of these keys and with 20 new ones. */
async function askedBesideLoad(...victims: readonly IssuedKey[]) {
  const { pid = 0 } = world.gateway.process.child
  const others = await Promise.all(Array.from({ length: 20 }, () => world.issue()))
  writeFileSync(`/proc/${pid}/clear_refs`, '5') // Resets the peak.
  const load = honest(1_500)
  const asked = [...victims, ...others].map(async ({ secret }) => {
    const beganMs = performance.now()
    expect(await send(world.gateway.urls.gateway, secret)).toBe('200')
    return performance.now() - beganMs
  })
  const longestMs = Math.max(...(await Promise.all(asked)))
  return { figures: await load, peakMb: peakMegabytes(pid), longestMs }
}

/** Peak resident memory of a process since the last reset, in megabytes. */
function peakMegabytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024
}
