import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { AdminResponse } from '../support/admin-response.ts'
import { confirmedByAll } from '../support/confirmed-by-all.ts'
import { Parts } from '../support/parts.ts'
import type { Listening } from '../support/postern-process.ts'
import { exchange, field, get } from '../support/raw-client.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'
import { WebhookReceiver } from '../support/webhook-receiver.ts'

const PLANS = {
  free: {
    policies: [
      { name: 'quota', per: 'workspace', requests: 10, window: 'month' },
      { name: 'wide', per: 'key', requests: 1_000_000, windowSeconds: 3600 },
    ],
  },
  business: { policies: [{ name: 'quota', per: 'workspace', requests: 1_000_000, window: 'month' }] },
}
const SECRET = `whsec_${Buffer.alloc(32, 'limit').toString('base64')}`
/** The bound within which gateways apply a revocation, and so a change of a plan. */
const BOUND_MS = 2000

let parts: Parts
let redis: RedisServer
let operator: WebhookReceiver
let settings: Readonly<Record<string, string>>
let consoleSettings: Readonly<Record<string, string>>
let running: Listening
let gateways: Listening[]

beforeAll(async () => {
  parts = new Parts()
  const [upstream, receiver] = [await parts.upstream(), await parts.own(await WebhookReceiver.start())]
  redis = await parts.redis()
  operator = receiver
  consoleSettings = {
    POSTERN_REDIS_URL: redis.url,
    POSTERN_DATABASE_URL: await parts.sqlite(),
    POSTERN_LIMITS_PLANS: JSON.stringify(PLANS),
    POSTERN_CONSOLE_WEBHOOK_URL: operator.url,
    POSTERN_CONSOLE_WEBHOOK_SECRET: SECRET,
    POSTERN_WEBHOOKS_WORKSPACES_ENABLED: 'true',
    POSTERN_WEBHOOKS_WORKSPACES_ALLOW_HTTP: 'true',
    POSTERN_WEBHOOKS_WORKSPACES_ALLOWED_CIDRS: '127.0.0.0/8',
  }
  running = await parts.console(consoleSettings)
  settings = {
    POSTERN_REDIS_URL: redis.url,
    POSTERN_LIMITS_PLANS: JSON.stringify(PLANS),
    POSTERN_KEY_SERVICE_URL: running.urls.internal,
    POSTERN_UPSTREAM_URL: upstream.url,
    POSTERN_USAGE_REPORT_SECONDS: '0.2',
    // A machine that does other things must not make a gateway count alone.
    POSTERN_REDIS_COMMAND_TIMEOUT_MS: '10000',
  }
  gateways = await Parts.several(3, startGateway)
})
afterAll(() => parts.stop())

async function startGateway(): Promise<Listening> {
  const gateway = await parts.gateway(settings)
  await until('it counts in Redis and is connected', async () => {
    const response = await fetch(`${gateway.urls.ops}/readyz`)
    const { limits, changes } = (await response.json()) as { limits: string; changes: string }
    return limits === 'shared' && changes === 'connected'
  })
  return gateway
}

async function admin(method: string, path: string, body?: unknown): Promise<AdminResponse> {
  const response = await fetch(`${running.urls.console}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${parts.adminToken}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return (await response.json()) as AdminResponse
}

async function issue(workspaceId: string, plan: string): Promise<string> {
  const wanted = { name: 'build', scopes: ['files:read'], plan }
  return (await admin('POST', `/workspaces/${workspaceId}/keys`, wanted)).secret
}

async function send(gateway: Listening, workspaceId: string, secret: string) {
  const answer = await exchange(gateway.urls.gateway, get(`/api/v1/workspaces/${workspaceId}/files`, secret))
  const limits = [...(field(answer, 'ratelimit-policy') ?? '').matchAll(/"quota";q=(\d+)/g)]
  return { status: answer.status, limit: Number(limits[0]?.[1]) }
}

/** In the order of their times: deliveries may overtake each other. */
const limitEvents = (receiver: WebhookReceiver) =>
  receiver.received
    .map(({ body }) => JSON.parse(body))
    .filter(({ type, data }) => type.startsWith('limit.') && data.workspaceId === 'ws_events')
    .sort((one, other) => one.data.percent - other.data.percent)

test('a plan that changes under load holds at each of three gateways within the bound of a revocation, and no request is refused that neither plan refuses', async () => {
  const secret = await issue('ws_load', 'free')
  await admin('PUT', '/workspaces/ws_load/plan', { plan: 'free' })
  for (let sent = 0; sent < 4; sent++) {
    for (const gateway of gateways) await send(gateway, 'ws_load', secret)
  }
  let isOver = false
  onTestFinished(() => {
    isOver = true
  })
  const load = gateways.map(async gateway => {
    const answers: { readonly sentMs: number; readonly status: number; readonly limit: number }[] = []
    while (!isOver) {
      const sentMs = performance.now()
      answers.push({ sentMs, ...(await send(gateway, 'ws_load', secret)) })
    }
    return answers
  })
  const changes: {
    readonly limit: number
    readonly isConfirmed: boolean
    readonly askedMs: number
    readonly confirmedMs: number
  }[] = []
  const change = async (plan: keyof typeof PLANS) => {
    const askedMs = performance.now()
    const { gateways: confirming } = await admin('PUT', '/workspaces/ws_load/plan?wait=1', { plan })
    const confirmedMs = performance.now()
    const limit = PLANS[plan].policies[0]?.requests ?? 0
    changes.push({ limit, isConfirmed: confirming.confirmed === gateways.length, askedMs, confirmedMs })
    // Until each gateway has decided some requests by it.
    for (let round = 0; round < 20; round++) {
      for (const gateway of gateways) await send(gateway, 'ws_load', secret)
    }
    return { gateways: confirming, tookMs: confirmedMs - askedMs }
  }
  for (const [before, plan] of [
    ['free', 'business'],
    ['business', 'free'],
    ['free', 'business'],
    ['business', 'free'],
  ] as const) {
    let isFirst = true
    const changed = await confirmedByAll({
      pids: () => [
        redis.pid,
        ...[running, ...gateways].map(each => each.process.child.pid ?? 0),
        process.pid,
      ],
      lateByMs: ({ tookMs }) => tookMs - BOUND_MS,
      change: async () => {
        if (!isFirst) await change(before)
        isFirst = false
        return change(plan)
      },
    })
    expect(changed.gateways).toMatchObject({ known: 3, confirmed: 3 })
    expect(changed.tookMs).toBeLessThan(BOUND_MS)
  }
  isOver = true
  for (const answers of await Promise.all(load)) {
    // Each answer is the one that one of the two plans gives.
    const kinds = new Set(answers.map(({ status, limit }) => `${status} ${limit}`))
    expect([...kinds].sort()).toEqual(['200 1000000', '429 10'])
    for (const [index, { limit, isConfirmed, confirmedMs }] of changes.entries()) {
      if (!isConfirmed) continue
      const untilMs = changes[index + 1]?.askedMs ?? Number.POSITIVE_INFINITY
      const after = answers.filter(({ sentMs }) => sentMs >= confirmedMs && sentMs < untilMs)
      expect(after.length).toBeGreaterThan(0)
      expect(new Set(after.slice(0, -1).map(answer => answer.limit))).toEqual(new Set([limit]))
    }
  }
})

describe('the operator and a workspace', () => {
  test('get one event at 80 % and one at 100 % of a limit that three gateways count, and no more after restarts', async () => {
    const own = await WebhookReceiver.start()
    onTestFinished(() => own.stop())
    const secret = await issue('ws_events', 'free')
    await admin('POST', '/workspaces/ws_events/webhook', { url: own.url })
    const both = [operator, own]
    const sendToAll = async (requests: number) => {
      for (let sent = 0; sent < requests; sent++) {
        for (const gateway of gateways) await send(gateway, 'ws_events', secret)
      }
    }
    await sendToAll(3)
    await until('both get the first event', () => both.every(one => limitEvents(one).length === 1))
    await sendToAll(2)
    await until('both get the second event', () => both.every(one => limitEvents(one).length === 2))
    for (const receiver of both) {
      const window = { workspaceId: 'ws_events', keyId: null, policy: 'quota', plan: 'free', limit: 10 }
      expect(limitEvents(receiver)).toMatchObject([
        { type: 'limit.approaching', data: { ...window, percent: 80 } },
        { type: 'limit.reached', data: { ...window, percent: 100, used: 10, remaining: 0 } },
      ])
    }
    const listed = async () => (await admin('GET', '/limits?workspaceId=ws_events')).limits
    const [before] = await listed()
    expect(before).toMatchObject({ keyId: null, policy: 'quota', limit: 10, used: 10, remaining: 0 })

    await running.process.stop()
    const { port } = new URL(running.urls.internal)
    running = await parts.console({ ...consoleSettings, POSTERN_CONSOLE_INTERNAL_PORT: port })
    await gateways[0]?.process.stop()
    gateways[0] = await startGateway()
    const restartedMs = Date.now()
    await until('the restarted gateway has reported', async () => {
      await sendToAll(1)
      const [now] = await listed()
      return Date.parse(now?.reportedAt ?? '') > restartedMs
    })
    const deliveries = await admin('GET', '/workspaces/ws_events/webhook/deliveries')
    expect(deliveries.deliveries.map(({ type }) => type)).toEqual(['limit.reached', 'limit.approaching'])
    for (const receiver of both) expect(limitEvents(receiver)).toHaveLength(2)
  })
})
