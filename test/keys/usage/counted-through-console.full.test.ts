import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Listening, startPostern } from '../../support/postern-process.ts'
import { until } from '../../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../../support/world.ts'

/** Reports go out this often here, instead of every 10 s. */
const REPORT_SECONDS = 1
/** A killed gateway loses the requests since its last acknowledged report: a period and the time of a report, with reserve. */
const LOSABLE_MS = (REPORT_SECONDS + 3) * 1000
const GATEWAYS = 3
const RUN_MS = 12_000
const CLIENTS = 6

const settings = { POSTERN_USAGE_REPORT_SECONDS: String(REPORT_SECONDS), POSTERN_LOG_LEVEL: 'warn' }

interface Answer {
  readonly atMs: number
  readonly gateway: Listening
  readonly code: string
}

let world: World
let gateways: Listening[]
let keys: IssuedKey[]
const answers: Answer[] = []

beforeAll(async () => {
  world = await startWorld(settings)
  const more = Array.from({ length: GATEWAYS - 1 }, start)
  gateways = [world.gateway, ...(await Promise.all(more))]
  keys = [
    await world.issue(),
    await world.issue({ workspaceId: 'ws_2' }),
    await world.issue({ scopes: ['workspace:read'] }),
  ]
}, 60_000)

afterAll(async () => {
  await Promise.all((gateways ?? []).map(gateway => gateway.process.stop()))
  await world?.stop()
})

function start(): Promise<Listening> {
  return startPostern('gateway', { ...world.env, ...settings })
}

/** Sends one request and notes its outcome; a request that a killed gateway did not answer does not count. */
async function send(): Promise<void> {
  const gateway = gateways[Math.floor(Math.random() * gateways.length)]
  const key = keys[Math.floor(Math.random() * keys.length)]
  if (gateway === undefined || key === undefined) return
  try {
    const response = await fetch(`${gateway.urls.gateway}/api/v1/workspaces/ws_1/files`, {
      headers: { authorization: `Bearer ${key.secret}` },
      signal: AbortSignal.timeout(5_000),
    })
    const body = (await response.json()) as { code?: string }
    answers.push({ atMs: Date.now(), gateway, code: response.ok ? 'ok' : (body.code ?? '') })
  } catch {
    // The gateway was killed, or has not been replaced yet.
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

/** Requests that the console has counted, by outcome. */
async function counted(): Promise<Map<string, number>> {
  const byCode = new Map<string, number>()
  const from = new Date(Date.now() - 3 * 3_600_000).toISOString()
  const to = new Date(Date.now() + 3_600_000).toISOString()
  for (const { id } of keys) {
    const { status, json } = await world.admin('GET', `/keys/${id}/usage?step=hour&from=${from}&to=${to}`)
    if (status !== 200) throw new Error(`The console answered ${status}: ${JSON.stringify(json)}`)
    const { usage } = json as { usage: { byCode: Record<string, number> }[] }
    for (const { byCode: codes } of usage) {
      for (const [code, count] of Object.entries(codes)) byCode.set(code, (byCode.get(code) ?? 0) + count)
    }
  }
  return byCode
}

const sum = (byCode: ReadonlyMap<string, number>) =>
  [...byCode].reduce((total, [code, count]) => total + (code === 'client_aborted' ? 0 : count), 0)

test('the console counts what clients were answered, minus what killed gateways had not reported', async () => {
  const endMs = Date.now() + RUN_MS
  let losable = 0
  const killSome = async () => {
    while (Date.now() < endMs - 3_000) {
      await new Promise(resolve => setTimeout(resolve, 1_500 + Math.random() * 1_500))
      const index = Math.floor(Math.random() * gateways.length)
      const killed = gateways[index]
      if (killed === undefined) continue
      await killed.process.stop('SIGKILL')
      const killedAtMs = Date.now()
      losable += answers.filter(
        ({ atMs, gateway }) => gateway === killed && atMs > killedAtMs - LOSABLE_MS,
      ).length
      gateways[index] = await start()
    }
  }
  const load = async () => {
    while (Date.now() < endMs) await send()
  }
  await Promise.all([killSome(), ...Array.from({ length: CLIENTS }, load)])
  await Promise.all(gateways.map(gateway => gateway.process.stop('SIGTERM')))
  await until('the last reports are stored', async () => sum(await counted()) >= answers.length - losable)
  const stored = await counted()
  expect(losable).toBeGreaterThan(0)
  expect(sum(stored)).toBeLessThanOrEqual(answers.length)
  for (const [code, count] of stored) {
    // A killed gateway may have counted a response that its client did not receive.
    const seen = answers.filter(answer => answer.code === code).length
    if (code !== 'client_aborted') expect([code, count]).toEqual([code, Math.min(count, seen)])
  }
  expect([...stored.keys()].filter(code => code !== 'client_aborted').sort()).toEqual([
    'not_found',
    'ok',
    'scope_missing',
  ])
}, 60_000)
