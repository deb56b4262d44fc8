import { Agent } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { recordKeyName } from '../../src/domain/wire.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { exchange, get } from '../support/raw-client.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
const ROUNDS = 2
/** On a loaded machine a load balancer needs so long to notice that a replica drains. */
const DRAIN_DELAY_MS = 3_000
/** Clients that send requests continuously on keep-alive connections. */
const CLIENTS = 8

let world: World
let keys: IssuedKey[]

beforeAll(async () => {
  world = await startWorld()
  keys = await Promise.all(Array.from({ length: 5 }, () => world.issue()))
})
afterAll(() => world.stop())

/** A load balancer: requests go to ready replicas on kept connections. */
class Balancer {
  readonly replicas = new Set<Listening>()
  readonly #agent = new Agent({ keepAliveTimeout: 30_000 })
  answers = 0
  readonly failures: string[] = []
  #turn = 0
  #stopped = false

  async load(): Promise<void> {
    while (!this.#stopped) {
      const replicas = [...this.replicas]
      const replica = replicas[this.#turn++ % replicas.length]
      const key = keys[this.#turn % keys.length]
      if (replica === undefined || key === undefined) throw new Error('There is no replica or no key')
      try {
        const { statusCode, body } = await this.#agent.request({
          origin: replica.urls.gateway,
          path: WORKSPACE,
          method: 'GET',
          headers: { authorization: `Bearer ${key.secret}` },
        })
        await body.dump()
        if (statusCode === 200) this.answers++
        else this.failures.push(String(statusCode))
      } catch (error) {
        this.failures.push(String(error))
      }
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#agent.close()
  }
}

test('replicas are replaced one by one under load without a failed request', async () => {
  const env = { ...world.env, POSTERN_DRAIN_DELAY_MS: String(DRAIN_DELAY_MS) }
  const balancer = new Balancer()
  let [old, other] = [await startPostern('gateway', env), await startPostern('gateway', env)]
  for (const replica of [old, other]) balancer.replicas.add(replica)
  const load = Promise.all(Array.from({ length: CLIENTS }, () => balancer.load()))

  for (let round = 0; round < ROUNDS; round++) {
    const next = await startPostern('gateway', env)
    expect((await fetch(`${next.urls.ops}/readyz`)).status).toBe(200)
    balancer.replicas.add(next)
    old.process.child.kill('SIGTERM')
    await old.process.logged(line => line['msg'] === 'draining')
    // A load balancer notices a moment later; requests that arrive until then are served.
    expect((await fetch(`${old.urls.ops}/readyz`)).status).toBe(503)
    balancer.replicas.delete(old)
    expect((await old.process.exited).code).toBe(0)
    ;[old, other] = [other, next]
  }
  await balancer.stop()
  await load
  await Promise.all([old, other].map(replica => replica.process.stop()))
  process.stdout.write(
    `rolling update: ${balancer.answers} requests answered, ${balancer.failures.length} failed\n`,
  )
  expect(balancer.failures).toEqual([])
  expect(balancer.answers).toBeGreaterThan(100)
})

test.each([
  ['fields that this version does not know', { colour: 'blue', nested: { v: 2 } }, 'redis'],
  ['a schema that it does not know', { v: 4 }, 'key_service'],
])('with a newer console whose records have %s, every key keeps working', async (_what, added, tier) => {
  const key = await world.issue()
  const name = recordKeyName(digestKey(key.secret))
  const record = JSON.parse((await world.redis.admin.get(name)) ?? '{}') as object
  await world.redis.admin.set(name, JSON.stringify({ ...record, ...added }))
  const answer = await exchange(
    world.gateway.urls.gateway,
    get('/api/v1/auth', key.secret, `X-Request-Id: reads-${tier}`),
  )
  expect(answer.status).toBe(200)
  const line = await world.gateway.process.logged(entry => entry['requestId'] === `reads-${tier}`)
  expect(line).toMatchObject({ status: 200, tier })
})
