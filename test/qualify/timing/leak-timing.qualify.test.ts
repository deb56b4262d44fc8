import { randomBytes, randomInt } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { importSigningSecret, mintSecret } from '../../../src/domain/key/secret.ts'
import { until } from '../../support/until.ts'
import { startWorld, type World } from '../../support/world.ts'
import { compare, isDistinguishable, leastDetectable } from './compare-times.ts'
import { drawKinds, type Subject, timePairs } from './time-pairs.ts'

const PAIRS = 100_000
const SECONDS = Number(process.env['TIMING_SECONDS'] ?? 4)
const LEAST_PAIRS = 500
const NAMES = Array.from({ length: 64 }, (_, index) => String(index))

let world: World
beforeAll(async () => {
  world = await startWorld(
    {},
    { POSTERN_LEAKS_ENABLED: 'true', POSTERN_LEAKS_REPORTS_PER_MINUTE: '100000', POSTERN_LOG_LEVEL: 'warn' },
  )
  await world.issue()
})
afterAll(() => world.stop())

const ownSecret = () => Buffer.from(world.env['POSTERN_KEYS_SIGNING_SECRETS'] ?? '', 'base64')
const mint = (secret: Uint8Array) => mintSecret('wsk_', randomBytes(32), importSigningSecret(secret)).reveal()

function requestOf(token: string): Buffer {
  const body = JSON.stringify({ token })
  const head = [
    'POST /leaks/report HTTP/1.1',
    'Host: x',
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ]
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`)
}

/** @param tokenOf of the first or the second kind */
async function measure(tokenOf: (isFirst: boolean) => string, seconds: number) {
  const kinds = drawKinds(NAMES, below => randomInt(below))
  const subjects: Subject[] = NAMES.map(name => {
    const kind = kinds.get(name) ?? 0
    return { request: requestOf(tokenOf(kind === 0)), kind }
  })
  const endMs = performance.now() + seconds * 1000
  const enough = (pairs: number) => pairs >= PAIRS || (pairs >= LEAST_PAIRS && performance.now() > endMs)
  const timed = await timePairs(world.console.urls.console ?? '', subjects, below => randomInt(below), enough)
  return { timed, comparison: compare(timed) }
}

test.each([
  ['a MAC of the signing secret', () => mint(ownSecret())],
  ['a digit changed', () => mint(ownSecret()).replace(/.$/, digit => (digit === '0' ? '1' : '0'))],
])(
  'response times to a report do not reveal whether an unknown token has %s',
  { timeout: 3_600_000 },
  async (what, token) => {
    const { timed, comparison } = await measure(
      isFirst => (isFirst ? token() : mint(randomBytes(32))),
      SECONDS,
    )
    const least = (leastDetectable(timed) / 1000).toFixed(1)
    process.stdout.write(
      `timing: a report of a token with ${what}, ${comparison.requests / 2} pairs, AUC ${comparison.areaUnderCurve.toFixed(4)}; ${least} µs more would have been detected\n`,
    )
    expect(isDistinguishable(comparison)).toBe(false)
  },
)

test('the gateway rejects a key within a second after a report of it, as a revoked one', async () => {
  const { secret } = await world.issue()
  const url = `${world.gateway.urls.gateway}/api/v1/auth`
  const send = async () => {
    const response = await fetch(url, { headers: { authorization: `Bearer ${secret}` } })
    return ((await response.json()) as { code?: string }).code ?? response.status
  }
  expect(await send()).toBe(200)
  const headers = { 'content-type': 'application/json' }
  const report = { method: 'POST', headers, body: JSON.stringify({ token: secret }) }
  expect(await (await fetch(`${world.console.urls.console}/leaks/report`, report)).json()).toEqual({
    label: 'true_positive',
  })
  await until('the gateway rejects the key', async () => (await send()) === 'key_revoked', 1_000)
})

test('the same statistics do distinguish a key that is revoked by the report, and reported again', {
  timeout: 3_600_000,
}, async () => {
  const key = await world.issue()
  const { comparison } = await measure(isFirst => (isFirst ? key.secret : mint(randomBytes(32))), SECONDS / 4)
  expect(isDistinguishable(comparison)).toBe(true)
})
