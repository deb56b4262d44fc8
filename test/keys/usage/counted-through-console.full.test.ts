import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Listening, startPostern } from '../../support/postern-process.ts'
import { until } from '../../support/until.ts'
import { UsageCollector } from '../../support/usage-collector.ts'
import { type IssuedKey, startWorld, type World } from '../../support/world.ts'

/** Reports go out this often here, instead of every 10 s. */
const REPORT_SECONDS = 1
/** A killed gateway loses the requests since its last acknowledged report: a period and the time of a report, with reserve. */
const LOSABLE_MS = (REPORT_SECONDS + 1) * 1000
const GATEWAYS = 3
const RUN_MS = 9_000
const CLIENTS = 6

interface Answer {
  readonly atMs: number
  readonly gateway: Listening
  readonly code: string
}

let settings: Record<string, string>
let collector: UsageCollector
let world: World
let gateways: Listening[]
let keys: IssuedKey[]
const answers: Answer[] = []

beforeAll(async () => {
  collector = await UsageCollector.start()
  settings = {
    POSTERN_USAGE_REPORT_SECONDS: String(REPORT_SECONDS),
    POSTERN_USAGE_EXPORT_URL: collector.url,
    POSTERN_LOG_LEVEL: 'warn',
  }
  world = await startWorld(settings)
  const more = Array.from({ length: GATEWAYS - 1 }, start)
  gateways = [world.gateway, ...(await Promise.all(more))]
  keys = [
    await world.issue(),
    await world.issue({ workspaceId: 'ws_2' }),
    await world.issue({ scopes: ['workspace:read'] }),
  ]
})

afterAll(async () => {
  await Promise.all((gateways ?? []).map(gateway => gateway.process.stop()))
  await world?.stop()
  collector?.stop()
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

/** Requests that the collector received, by outcome; a line that came twice counts once. */
function exported(): Map<string, number> {
  const lines = new Map(
    collector.accepted.map(line => [`${line['gateway']} ${line['sequence']} ${line['index']}`, line]),
  )
  const byCode = new Map<string, number>()
  for (const { code, count } of lines.values()) {
    byCode.set(String(code), (byCode.get(String(code)) ?? 0) + Number(count))
  }
  return byCode
}

const sum = (byCode: ReadonlyMap<string, number>) =>
  [...byCode].reduce((total, [code, count]) => total + (code === 'client_aborted' ? 0 : count), 0)

test('console and collector count what clients were answered, minus what killed gateways had not reported', async () => {
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
  expect(losable).toBeGreaterThan(0)
  for (const totals of [await counted(), exported()]) {
    expect(sum(totals)).toBeGreaterThanOrEqual(answers.length - losable)
    const codes = [...totals.keys()].filter(code => code !== 'client_aborted').sort()
    expect(codes).toEqual(['not_found', 'ok', 'scope_missing'])
    for (const code of codes) {
      const seen = answers.filter(answer => answer.code === code).length
      expect(totals.get(code)).toBeLessThanOrEqual(seen)
    }
  }
})
