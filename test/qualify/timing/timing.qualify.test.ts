import { randomInt } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { get } from '../../support/raw-client.ts'
import { startWorld, type World } from '../../support/world.ts'
import {
  type Comparison,
  compare,
  isDistinguishable,
  leastDetectable,
  type TimedRequests,
} from './compare-times.ts'
import { drawKinds, type Subject, timePairs } from './time-pairs.ts'

/** `npm run timing` measures all pairs; an ordinary run as many as fit into its time. */
const PAIRS = 100_000
const SECONDS = Number(process.env['TIMING_SECONDS'] ?? 20)
const LEAST_PAIRS = 1000

const NAMES = Array.from({ length: 64 }, (_, index) => `ws_${(0x1000 + index * 37).toString(16)}`)
/** Which of them exist is random, so that no other property of a name correlates with it. */
const kinds = drawKinds(NAMES, below => randomInt(below))
const exists = (name: string) => kinds.get(name) === 0

let world: World
let secret: string

beforeAll(async () => {
  world = await startWorld({ POSTERN_LOG_LEVEL: 'warn' })
  secret = (await world.issue()).secret
  // They exist for the console, Redis and the gateway's memory.
  for (const workspaceId of NAMES.filter(exists)) {
    const key = await world.issue({ workspaceId })
    const url = `${world.gateway.urls.gateway}/api/v1/workspaces/${workspaceId}`
    await (await fetch(url, { headers: { authorization: `Bearer ${key.secret}` } })).arrayBuffer()
  }
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

function subjectsOf(target: (name: string) => string): Subject[] {
  return NAMES.map(name => ({
    request: Buffer.from(get(target(name), secret), 'latin1'),
    kind: kinds.get(name) ?? 0,
  }))
}

function measure(subjects: readonly Subject[], seconds: number): Promise<TimedRequests> {
  const endMs = performance.now() + seconds * 1000
  const enough = (pairs: number) => pairs >= PAIRS || (pairs >= LEAST_PAIRS && performance.now() > endMs)
  return timePairs(world.gateway.urls.gateway, subjects, below => randomInt(below), enough)
}

function print(what: string, { requests, areaUnderCurve, deviations }: Comparison, more = ''): void {
  const numbers = Object.entries(deviations).map(([score, value]) => `${score} ${value.toFixed(2)}`)
  process.stdout.write(
    `timing: ${what}, ${requests / 2} pairs, AUC ${areaUnderCurve.toFixed(4)}, deviations: ${numbers.join(', ')}${more}\n`,
  )
}

test('response times do not reveal whether another workspace exists', {
  timeout: 3_600_000,
}, async () => {
  const timed = await measure(
    subjectsOf(name => `/api/v1/workspaces/${name}`),
    SECONDS,
  )
  const comparison = compare(timed)
  const least = `; ${(leastDetectable(timed) / 1000).toFixed(2)} µs more would have been detected`
  print('existing or not', comparison, least)
  expect(isDistinguishable(comparison)).toBe(false)
  expect(world.upstream.requests).toEqual([])
})

test('nor whether a missing scope or an invalid parameter was checked first', {
  timeout: 3_600_000,
}, async () => {
  const timed = await measure(
    subjectsOf(name => `/api/v1/workspaces/${name}/files?limit=x`),
    SECONDS / 4,
  )
  const comparison = compare(timed)
  print('existing or not, with a wrong parameter', comparison)
  expect(isDistinguishable(comparison)).toBe(false)
})

test('the same statistics do distinguish requests that are forwarded to the upstream', {
  timeout: 3_600_000,
}, async () => {
  const own = subjectsOf(name => `/api/v1/workspaces/${exists(name) ? name : 'ws_1'}`)
  const comparison = compare(await measure(own, SECONDS / 10))
  print('another workspace or the key’s own', comparison)
  expect(isDistinguishable(comparison)).toBe(true)
  expect(comparison.areaUnderCurve).toBeGreaterThan(0.6)
})
