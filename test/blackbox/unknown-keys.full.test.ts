import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { percentile } from '../support/closed-loop.ts'
import { freePort } from '../support/free-port.ts'
import { InspectedProcess } from '../support/inspected-process.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { TokenFlood } from '../support/token-flood.ts'
import { startWorld, type World } from '../support/world.ts'

/** A machine that others use at the same time sends fewer. */
const FLOOD_PER_SECOND = 2_500
const SECONDS = 4
const COLD_SIGNED = 40
const COLD_IMPORTED = 400
/** The defaults of `keys.unsignedLookups`. */
const PER_SECOND = 500
const PER_ADDRESS = 100

let world: World
let gateway: InspectedProcess
let signed: string[]
let imported: string[]
beforeAll(async () => {
  const inspectorPort = await freePort()
  world = await startWorld({
    POSTERN_KEYS_FORMAT: 'any',
    POSTERN_GATEWAY_TRUSTED_PROXIES: '127.0.0.0/8',
    POSTERN_LOG_LEVEL: 'warn',
    NODE_OPTIONS: `--inspect=127.0.0.1:${inspectorPort}`,
    // Load shedding has tests of its own: beside other work on the machine it would reject requests here, too.
    POSTERN_GATEWAY_MAX_LOOP_DELAY_MS: '1000',
  })
  gateway = await InspectedProcess.attach(world.gateway.process.child.pid ?? 0, inspectorPort)
  signed = []
  for (let key = 0; key < 2 * COLD_SIGNED + 1; key++) signed.push((await world.issue()).secret)
  imported = Array.from({ length: 2 * COLD_IMPORTED + 1 }, () => `old-${randomBytes(16).toString('hex')}`)
  for (let from = 0; from < imported.length; from += 1_000)
    await importKeys(imported.slice(from, from + 1_000))
})
afterAll(async () => {
  gateway.detach()
  await world.stop()
})

async function importKeys(secrets: readonly string[]): Promise<void> {
  const expiresAt = new Date(Date.now() + 86_400_000).toISOString()
  const more = { hint: 'old', workspaceId: 'ws_1', name: 'imported', scopes: ['files:read'], expiresAt }
  const keys = secrets.map(secret => ({ digest: digestKey(secret), ...more }))
  expect((await world.admin('POST', '/import', { keys })).json).toMatchObject({ imported: secrets.length })
}

/** Requests of one kind of client, one after the other. */
class Client {
  /** Number of responses by code; `ok` for 200. */
  readonly codes = new Map<string, number>()
  readonly tookMs: number[] = []
  readonly #address: string

  constructor(address: string) {
    this.#address = address
  }

  async send(secret: string): Promise<void> {
    const headers = { authorization: `Bearer ${secret}`, 'x-forwarded-for': this.#address }
    const startedAtMs = performance.now()
    const response = await fetch(`${world.gateway.urls.gateway}/api/v1/auth`, { headers })
    const { code = 'ok' } = (await response.json()) as { code?: string }
    this.tookMs.push(performance.now() - startedAtMs)
    this.codes.set(code, (this.codes.get(code) ?? 0) + 1)
  }

  get p99Ms(): string {
    return percentile(this.tookMs, 0.99).toFixed(1)
  }
}

async function lookupsSoFar() {
  const metrics = await scrape(world.gateway.urls.ops)
  const stats = String(await world.redis.admin.info('commandstats'))
  return {
    redis: Number(/cmdstat_getrange:calls=(\d+)/.exec(stats)?.[1] ?? 0),
    keyService: sumOf(metrics, 'postern_key_cache_lookups_total', 'key_service'),
  }
}

/** After garbage collection: when that happens depends on what else the machine does. */
async function residentMegabytes(): Promise<number> {
  return (await gateway.measure()).residentBytes / 2 ** 20
}

/** Keys in memory and keys that this gateway has never seen, while a flood from these addresses runs. */
async function underFlood(addressOf: (request: number) => string, round: number) {
  const clients = {
    signedHot: new Client('203.0.113.1'),
    signedCold: new Client('203.0.113.2'),
    importedHot: new Client('203.0.113.3'),
    importedCold: new Client('203.0.113.4'),
  }
  const [signedKey = '', importedKey = ''] = [signed[0], imported[0]]
  await clients.signedHot.send(signedKey)
  await clients.importedHot.send(importedKey)
  const cold = {
    signed: signed.slice(1 + round * COLD_SIGNED, 1 + (round + 1) * COLD_SIGNED),
    imported: imported.slice(1 + round * COLD_IMPORTED, 1 + (round + 1) * COLD_IMPORTED),
  }
  const before = await lookupsSoFar()
  const megabytes = await residentMegabytes()
  const flood = new TokenFlood(world.gateway.urls.gateway, FLOOD_PER_SECOND, addressOf)
  const during = async (work: (turn: number) => Promise<void>) => {
    for (let turn = 0; flood.seconds < SECONDS; turn++) await work(turn)
  }
  const spread = async (client: Client, secrets: readonly string[]) => {
    for (const [index, secret] of secrets.entries()) {
      // Over the whole flood, so that its first burst does not decide.
      const dueMs = (index / secrets.length) * SECONDS * 1000 - flood.seconds * 1000
      if (dueMs > 0) await new Promise(resolve => setTimeout(resolve, dueMs))
      await client.send(secret)
    }
  }
  await Promise.all([
    during(() => clients.signedHot.send(signedKey)),
    during(() => clients.importedHot.send(importedKey)),
    spread(clients.signedCold, cold.signed),
    spread(clients.importedCold, cold.imported),
  ])
  const { sent, statuses } = flood
  flood.stop()
  const after = await lookupsSoFar()
  // What was on the way when the flood stopped is looked up, and counted, until here.
  const { seconds } = flood
  const grown = (await residentMegabytes()) - megabytes
  const lookups = { redis: after.redis - before.redis, keyService: after.keyService - before.keyService }
  const figures = [
    `${Math.round(sent / seconds)} random tokens/s: ${[...statuses].map(entry => entry.join(' × ')).join(', ')}`,
    `lookups/s: Redis ${Math.round(lookups.redis / seconds)}, key service ${Math.round(lookups.keyService / seconds)}`,
    ...Object.entries(clients).map(
      ([name, { codes, p99Ms }]) => `${name} ${JSON.stringify([...codes])} p99 ${p99Ms} ms`,
    ),
    `gateway ${grown.toFixed(0)} MB more memory`,
  ]
  process.stdout.write(`figure: ${figures.join('; ')}\n`)
  return { clients, lookups, seconds, rate: sent / seconds, statuses, grown }
}

const onlyOk = (client: Client) => expect([...client.codes.keys()]).toEqual(['ok'])

test('a flood of random tokens from a few addresses is shed, and every holder of a key is served', async () => {
  const { clients, lookups, seconds, rate, statuses, grown } = await underFlood(
    request => `198.51.100.${request % 4}`,
    0,
  )
  for (const client of Object.values(clients)) onlyOk(client)
  // A token that was looked up is unknown (401); of one that was not, nothing is said.
  expect([...statuses.keys()].sort()).toEqual([401, 503])
  // It was a flood: more than is looked up for its addresses.
  expect(rate).toBeGreaterThan(4 * PER_ADDRESS)
  const ofClients = COLD_SIGNED + COLD_IMPORTED + 10
  const budget = 4 * PER_ADDRESS * (seconds + 1)
  expect(lookups.redis).toBeLessThanOrEqual(budget + ofClients)
  expect(lookups.keyService).toBeLessThanOrEqual(budget + ofClients)
  expect(grown).toBeLessThan(100)
})

test('a flood from very many addresses never stops keys with a MAC, or keys in memory, and no holder gets 401', async () => {
  const { clients, lookups, seconds } = await underFlood(
    request => `2001:db8:${(request % 5_000).toString(16)}::1`,
    1,
  )
  for (const client of [clients.signedHot, clients.signedCold, clients.importedHot]) onlyOk(client)
  const ofCold = [...clients.importedCold.codes.keys()]
  expect(ofCold.filter(code => code !== 'ok' && code !== 'key_store_unavailable')).toEqual([])
  expect(lookups.redis).toBeLessThanOrEqual(PER_SECOND * (seconds + 1) + COLD_SIGNED + COLD_IMPORTED + 10)
})
