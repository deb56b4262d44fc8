import { request } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { GatewaysResponse } from '../support/admin-response.ts'
import { confirmedByAll as confirmed } from '../support/confirmed-by-all.ts'
import { type Ending, Fleet, REFUSED_AS, type Replica } from '../support/fleet.ts'
import { runs } from '../support/runs.ts'
import { until } from '../support/until.ts'
import type { IssuedKey } from '../support/world.ts'
import { quantile } from './history.ts'

const ROUNDS = runs(10, 50)
let fleet: Fleet

beforeAll(async () => {
  fleet = await Fleet.start(3)
})
afterAll(() => fleet.stop())

async function answerAt({ urls }: Replica, { secret }: IssuedKey) {
  const headers = { authorization: `Bearer ${secret}` }
  const { statusCode, body } = await request(`${urls.gateway}/api/v1/auth`, { headers })
  return { status: statusCode, json: (await body.json()) as Record<string, unknown> }
}

async function statusAt(replica: Replica, key: IssuedKey): Promise<number> {
  return (await answerAt(replica, key)).status
}

async function codeAt(replica: Replica, key: IssuedKey): Promise<unknown> {
  return (await answerAt(replica, key)).json['code']
}

/** Issues a key that all these replicas have in memory. */
async function issueKnown(replicas: readonly Replica[]): Promise<IssuedKey> {
  const [key] = await fleet.issue(1)
  if (key === undefined) throw new Error('The console issued no key')
  for (const replica of replicas) expect(await statusAt(replica, key)).toBe(200)
  return key
}

async function untilAllConfirm(): Promise<void> {
  await until('all three gateways confirm', async () => {
    const [key] = await fleet.issue(1)
    return key !== undefined && (await fleet.revokeAndWait(key)).confirmed === 3
  })
}

/** A change that a starved gateway did not confirm is made again, to another key. */
async function confirmedByAll<Result extends { readonly gateways: GatewaysResponse }>(
  change: () => Promise<Result>,
): Promise<Result> {
  const result = await confirmed({
    pids: () => fleet.pids,
    change: async () => {
      await untilAllConfirm()
      return change()
    },
  })
  expect(result.gateways).toEqual({ known: 3, confirmed: 3, verifying: 0, silent: [] })
  return result
}

test('once the console reports that all gateways have confirmed, each rejects the key at its next request', async () => {
  const tookMs: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const { key, beganMs } = await confirmedByAll(async () => {
      const key = await issueKnown(fleet.replicas)
      const beganMs = performance.now()
      return { key, beganMs, gateways: await fleet.revokeAndWait(key) }
    })
    tookMs.push(performance.now() - beganMs)
    for (const replica of fleet.replicas) expect(await statusAt(replica, key)).toBe(401)
  }
  const [p50, p99] = [0.5, 0.99].map(share =>
    Math.round(
      quantile(
        tookMs.sort((a, b) => a - b),
        share,
      ),
    ),
  )
  process.stdout.write(
    `revocation confirmed by all three gateways: ${ROUNDS} keys, p50/p99 ${p50}/${p99} ms\n`,
  )
})

test.each<Ending>(['suspend', 'shorten', 'narrow'])(
  'when all gateways have confirmed, each rejects the key from then on: %s',
  async ending => {
    for (let round = 0; round < ROUNDS / 5; round++) {
      const { key, committedAtMs } = await confirmedByAll(async () => {
        const key = await issueKnown(fleet.replicas)
        return { key, ...(await fleet.end(key, ending, true)) }
      })
      await until('the expiry is over', async () => Date.now() > committedAtMs)
      for (const replica of fleet.replicas) expect(await codeAt(replica, key)).toBe(REFUSED_AS[ending])
    }
  },
)

test('when all gateways have confirmed that a key is resumed, each accepts it at the next request', async () => {
  const { key } = await confirmedByAll(async () => {
    const { key } = await confirmedByAll(async () => {
      const key = await issueKnown(fleet.replicas)
      return { key, ...(await fleet.end(key, 'suspend', true)) }
    })
    for (const replica of fleet.replicas) expect(await statusAt(replica, key)).toBe(401)
    return { key, gateways: await fleet.resumeAndWait(key) }
  })
  for (const replica of fleet.replicas) expect(await statusAt(replica, key)).toBe(200)
})

test('a gateway without a subscription is counted as verifying each key', async () => {
  const [disconnected, ...others] = fleet.replicas
  if (disconnected === undefined) throw new Error('The fleet has no replicas')
  await untilAllConfirm()
  disconnected.toRedis.hold('back')
  try {
    await until('the console counts it as disconnected', async () => {
      const gateways = await fleet.revokeAndWait(await issueKnown(others))
      return gateways.confirmed === 2 && gateways.verifying === 1
    })
    const key = await issueKnown(fleet.replicas)
    await fleet.revokeAndWait(key)
    for (const replica of others) expect(await statusAt(replica, key)).toBe(401)
  } finally {
    disconnected.toRedis.resume()
  }
  await fleet.untilHealthy()
})

test('a frozen gateway is reported as silent, and the others confirm without delay', async () => {
  const [frozen, ...others] = fleet.replicas
  if (frozen === undefined) throw new Error('The fleet has no replicas')
  await untilAllConfirm()
  frozen.process.child.kill('SIGSTOP')
  try {
    const gateways = await fleet.revokeAndWait(await issueKnown(others))
    expect(gateways).toMatchObject({ confirmed: 2, verifying: 0 })
    expect(gateways.silent).toHaveLength(1)
  } finally {
    frozen.process.child.kill('SIGCONT')
  }
  await fleet.untilHealthy()
  await untilAllConfirm()
})
