import { afterAll, beforeAll, expect, test } from 'vitest'
import type { GatewaysResponse } from '../support/admin-response.ts'
import { confirmedByAll } from '../support/confirmed-by-all.ts'
import { exchange, get } from '../support/raw-client.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

/** The bound within which gateways apply a revocation, and so a change of a plan. */
const BOUND_MS = 2000
const hourly = (requests: number) => ({ name: 'hourly', per: 'key', requests, windowSeconds: 3600 })
const PLANS = { free: { policies: [hourly(1)] }, business: { policies: [hourly(1000)] } }

let world: World
beforeAll(async () => {
  const settings = {
    POSTERN_LIMITS_PLANS: JSON.stringify(PLANS),
    // Only a message makes this gateway forget a record while a test runs.
    POSTERN_KEYS_MEMORY_TTL_SECONDS: '3600',
  }
  world = await startWorld(settings, settings)
  await untilConfirming()
})
afterAll(() => world.stop())

const FILES = '/api/v1/workspaces/ws_1/files'
const statusOf = async (key: IssuedKey) =>
  (await exchange(world.gateway.urls.gateway, get(FILES, key.secret))).status

async function untilConfirming(): Promise<void> {
  await until('the gateway confirms changes', async () => {
    const { id } = await world.issue({ workspaceId: 'ws_other' })
    const { json } = await world.admin('POST', `/keys/${id}/revoke?wait=1`)
    return (json['gateways'] as GatewaysResponse | null)?.confirmed === 1
  })
}

async function setPlan(plan: string | null) {
  const beganMs = performance.now()
  const { status, json } = await world.admin('PUT', '/workspaces/ws_1/plan?wait=1', { plan })
  const gateways = json['gateways'] as GatewaysResponse | null
  return { status, json, gateways, tookMs: performance.now() - beganMs }
}

/** @param before the plan of the workspace, from which it changes again if the machine starved the gateway */
function changePlan(before: string | null, plan: string) {
  let isFirst = true
  return confirmedByAll({
    pids: () => world.pids,
    lateByMs: ({ tookMs }) => tookMs - BOUND_MS,
    change: async () => {
      if (!isFirst) await setPlan(before)
      isFirst = false
      await untilConfirming()
      return setPlan(plan)
    },
  })
}

test('a workspace whose plan changes has its limits for keys in use and for later ones, once the gateway confirms it', async () => {
  const keys = [await world.issue({ workspaceId: 'ws_1' }), await world.issue({ workspaceId: 'ws_1' })]
  const twice = async (key: IssuedKey) => [await statusOf(key), await statusOf(key)]
  for (const key of keys) expect(await twice(key)).toEqual([200, 200])
  const changed = await changePlan(null, 'free')
  expect([changed.status, changed.json]).toMatchObject([
    200,
    { plan: 'free', changed: 2, announced: true, gateways: { known: 1, confirmed: 1 } },
  ])
  expect(changed.tookMs).toBeLessThan(BOUND_MS)
  for (const key of keys) expect(await twice(key)).toEqual([200, 429])
  const later = await world.issue({ workspaceId: 'ws_1' })
  expect(await twice(later)).toEqual([200, 429])
  expect((await changePlan('free', 'business')).json).toMatchObject({
    changed: 3,
    gateways: { confirmed: 1 },
  })
  for (const key of [...keys, later]) expect(await statusOf(key)).toBe(200)
})
