import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { currentWindow, type RatePolicy } from '../../src/domain/rate-limit.ts'
import { Parts } from '../support/parts.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { exchange, field, get, type RawAnswer } from '../support/raw-client.ts'
import { scrapeOne } from '../support/scrape.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

/** Three gateways with the plans of one file. The console also knows a plan that they do not. */
const minute = (requests: number): RatePolicy => ({
  ...{ name: 'minute', per: 'workspace', route: 'files' },
  ...{ requests, windowSeconds: 3600 },
})
const quota = (requests: number): RatePolicy => ({
  ...{ name: 'quota', per: 'workspace', route: 'workspace' },
  ...{ requests, window: 'month' },
})
const PLANS = {
  free: { policies: [minute(2), quota(30)] },
  business: { policies: [minute(4), quota(300)] },
  unlimited: { policies: [] },
}
const LIMITS = { policies: [minute(1)], plans: PLANS, replicas: 3 }
const UNKNOWN = 'postern_ratelimit_unknown_plan_requests_total'
const RELOADED = 'postern_config_last_reload_timestamp_seconds'

let directory: string
let file: string
let world: World
let gateways: Listening[] = []
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'postern-plans-'))
  file = join(directory, 'gateway.yaml')
  write(LIMITS)
  const settings = {
    POSTERN_CONFIG: file,
    POSTERN_LOG_LEVEL: 'warn',
    // A machine that does other things must not make a gateway count alone, or shed load.
    POSTERN_REDIS_COMMAND_TIMEOUT_MS: '10000',
    POSTERN_GATEWAY_MAX_LOOP_DELAY_MS: '10000',
  }
  const known = { ...PLANS, gold: { policies: [] } }
  world = await startWorld(settings, { POSTERN_LIMITS_PLANS: JSON.stringify(known) })
  gateways = [world.gateway]
  const more = await Parts.several(2, () => startPostern('gateway', { ...world.env, ...settings }))
  gateways.push(...more)
  await untilShared()
})
afterAll(async () => {
  await Promise.all(gateways.slice(1).map(({ process }) => process.stop()))
  await world.stop()
  rmSync(directory, { recursive: true })
})

function write(limits: unknown): void {
  writeFileSync(file, JSON.stringify({ limits }))
}

const readinessOf = async ({ urls }: Listening) =>
  (await (await fetch(`${urls.ops}/readyz`)).json()) as Record<string, string>
const hashes = async () =>
  new Set(await Promise.all(gateways.map(async gateway => (await readinessOf(gateway))['settings'])))

async function untilShared(): Promise<void> {
  const counts = async (gateway: Listening) => (await readinessOf(gateway))['limits'] === 'shared'
  for (const gateway of gateways) await until('limits are counted in Redis', () => counts(gateway), 20_000)
}

/** Writes the file, and lets every gateway read it. */
async function reload(limits: unknown): Promise<void> {
  const before = await Promise.all(gateways.map(({ urls }) => scrapeOne(urls.ops, RELOADED)))
  write(limits)
  for (const { process } of gateways) process.child.kill('SIGHUP')
  for (const [index, { urls }] of gateways.entries()) {
    const isNew = async () => (await scrapeOne(urls.ops, RELOADED)) > (before[index] ?? 0)
    await until('the settings are reloaded', isNew)
  }
}

let workspaces = 0
/** A key of a workspace without any request so far. */
async function customer(plan?: string) {
  const workspaceId = `ws_plan_${++workspaces}`
  const key = await world.issue({ workspaceId, ...(plan === undefined ? {} : { plan }) })
  const path = `/api/v1/workspaces/${workspaceId}`
  return { key, path, files: `${path}/files` }
}

const send = (target: string, key: IssuedKey, gateway = world.gateway): Promise<RawAnswer> =>
  exchange(gateway.urls.gateway, get(target, key.secret))

async function statuses(requests: number, target: string, key: IssuedKey): Promise<number[]> {
  const seen: number[] = []
  for (let sent = 0; sent < requests; sent++) seen.push((await send(target, key)).status)
  return seen
}

/** All at once, in turn at each gateway. @returns how many got each status */
async function burst(requests: number, target: string, key: IssuedKey): Promise<Record<number, number>> {
  const sent = Array.from({ length: requests }, (_, index) => send(target, key, gateways[index % 3]))
  const seen: Record<number, number> = {}
  for (const { status } of await Promise.all(sent)) seen[status] = (seen[status] ?? 0) + 1
  return seen
}

describe('a customer', () => {
  test('has the limits of the plan of the key, beside customers of other plans and of none', async () => {
    const [free, business, unlimited, none] = await Promise.all(
      ['free', 'business', 'unlimited', undefined].map(customer),
    )
    const passed = async (who: typeof free) =>
      who === undefined ? [] : (await statuses(6, who.files, who.key)).filter(status => status === 200).length
    expect([await passed(free), await passed(business), await passed(unlimited), await passed(none)]).toEqual(
      [2, 4, 6, 1],
    )
  })

  test('sees in each response what is left of the month, and in /api/v1/auth which plan it is', async () => {
    const { key, path } = await customer('free')
    const { seconds } = currentWindow(quota(30), Date.now())
    const answer = await send(path, key)
    expect(field(answer, 'ratelimit-policy')).toBe(`"quota";q=30;w=${seconds}`)
    const [, left, ends] = /^"quota";r=(\d+);t=(\d+)$/.exec(field(answer, 'ratelimit') ?? '') ?? []
    expect(left).toBe('29')
    const month = new Date()
    const end = Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1) / 1000
    expect(Math.abs(Date.now() / 1000 + Number(ends) - end)).toBeLessThan(5)
    expect(JSON.parse((await send('/api/v1/auth', key)).body)).toMatchObject({ plan: 'free' })
    const without = await customer()
    expect(JSON.parse((await send('/api/v1/auth', without.key)).body)).toMatchObject({ plan: null })
  })

  test('gets of a burst at three gateways exactly what the month allows, and then 429 until it ends', async () => {
    const { key, path } = await customer('free')
    expect(await burst(90, path, key)).toEqual({ 200: 30, 429: 60 })
    const refused = await send(path, key)
    expect(field(refused, 'retry-after')).toBe(/t=(\d+)$/.exec(field(refused, 'ratelimit') ?? '')?.[1])
    expect(Number(field(refused, 'retry-after'))).toBeLessThanOrEqual(31 * 86_400)
  })

  test('that exhausted a limit is refused without asking Redis, and another one does not notice', async () => {
    const [noisy, quiet] = [await customer('free'), await customer('free')]
    await burst(90, noisy.path, noisy.key)
    const before = await counted()
    const [flood, beside] = await Promise.all([
      burst(600, noisy.path, noisy.key),
      statuses(20, quiet.path, quiet.key),
    ])
    expect([flood, new Set(beside)]).toEqual([{ 429: 600 }, new Set([200])])
    expect((await counted()) - before).toBe(20)
  })
})

/** Counts that Redis made so far. */
async function counted(): Promise<number> {
  const stats = await world.redis.admin.info('commandstats')
  return Number(/cmdstat_incrby:calls=(\d+)/.exec(stats)?.[1])
}

test('a plan that a gateway does not know counts as none: no request fails, it is counted, and logged once', async () => {
  const { key, files } = await customer('gold')
  const { urls, process } = world.gateway
  const before = await scrapeOne(urls.ops, UNKNOWN)
  expect(await statuses(3, files, key)).toEqual([200, 429, 429])
  expect((await scrapeOne(urls.ops, UNKNOWN)) - before).toBe(3)
  await process.logged(line => line['plan'] === 'gold')
  const lines = process.log.filter(line => line['msg'] === 'plan unknown, limits.policies apply')
  expect(lines).toMatchObject([{ plan: 'gold', level: 40 }])
})

describe('a reload', () => {
  test('changes limits at all gateways without a restart, keeps what was used, and shows in /readyz', async () => {
    const { key, path } = await customer('free')
    expect(await burst(60, path, key)).toEqual({ 200: 30, 429: 30 })
    const before = await hashes()
    await reload({ ...LIMITS, plans: { ...PLANS, free: { policies: [minute(2), quota(1_000)] } } })
    const after = await hashes()
    expect([before.size, after.size, new Set([...before, ...after]).size]).toEqual([1, 1, 2])
    const answer = await send(path, key)
    expect(answer.status).toBe(200)
    const left = Number(/r=(\d+);/.exec(field(answer, 'ratelimit') ?? '')?.[1])
    // The 30 that were accepted and this one; of the others those that were in flight when the limit was reached.
    expect(left).toBeLessThanOrEqual(1_000 - 31)
    expect(left).toBeGreaterThanOrEqual(1_000 - 61)
    await reload(LIMITS)
    expect([await hashes(), (await send(path, key)).status]).toEqual([before, 429])
  })

  test('with a mistake keeps the limits that held', async () => {
    const before = await hashes()
    await reload({ ...LIMITS, plans: { free: { policies: [{ ...minute(9), window: 'month' }] } } })
    const line = await world.gateway.process.logged(({ problem }) => String(problem).includes('limits.plans'))
    expect(line['problem']).toMatch(
      /gateway\.yaml:1: limits\.plans, at free\.policies\.minute: must have either windowSeconds or window: month$/,
    )
    expect(await hashes()).toEqual(before)
    const { key, files } = await customer('free')
    expect(await statuses(3, files, key)).toEqual([200, 200, 429])
    await reload(LIMITS)
  })
})

test('while Redis is down each gateway allows its share of the month, and an empty Redis goes on where it was', async () => {
  const { key, path } = await customer('free')
  expect(await burst(15, path, key)).toEqual({ 200: 15 })
  await world.redis.kill()
  const isLocal = async (gateway: Listening) => (await readinessOf(gateway))['limits'] === 'local'
  for (const gateway of gateways) await until('limits are counted locally', () => isLocal(gateway))
  const alone = await burst(90, path, key)
  expect(Object.keys(alone)).toEqual(['200', '429'])
  expect(alone[200]).toBeLessThanOrEqual(30)
  await world.redis.revive()
  await untilShared()
  const after: number[] = []
  for (let sent = 0; sent < 30; sent++) after.push((await send(path, key, gateways[sent % 3])).status)
  const passed = after.filter(status => status === 200).length
  // Fifteen are left. The two gateways that did not count last may each count one request before Redis knows it.
  expect(passed).toBeGreaterThanOrEqual(15)
  expect(passed).toBeLessThanOrEqual(17)
})
