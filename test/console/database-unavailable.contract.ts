import type { InjectOptions } from 'fastify'
import { expect } from 'vitest'
import { type EveryRoute, pathOf, type Route } from '../support/every-route.ts'
import { until } from '../support/until.ts'

const DIGEST = 'a'.repeat(64)
const KEY = { name: 'a', scopes: ['files:read'] }
/** By the end of their path; other calls need no body. */
const BODIES: readonly (readonly [path: RegExp, body: object])[] = [
  [/\/workspaces\/:workspaceId\/keys$/, KEY],
  [/\/keys\/:keyId(?:\/check-edit)?$/, { name: 'b' }],
  [/\/workspaces\/:workspaceId\/plan$/, { plan: null }],
  [/\/tokens$/, { name: 'a', permissions: ['keys:read'], expiresInDays: 1 }],
  [/\/webhook$/, { url: 'https://hooks.example.com/' }],
  [
    /\/import(?:\/check)?$/,
    {
      keys: [
        {
          ...KEY,
          digest: DIGEST,
          hint: 'wsk_…abcd',
          workspaceId: 'ws_1',
          expiresAt: new Date(Date.now() + 86_400_000).toISOString(),
        },
      ],
    },
  ],
  [/\/keys\/search$/, {}],
  [/\/keys\/lookup$/, { digest: DIGEST }],
  [/\/lookups$/, { digests: [DIGEST] }],
  [/\/usage$/, { gateway: 'gateway-1.a1b2', sequence: 1, used: {}, counts: [], refusals: [] }],
  [/\/confirmations$/, { gateway: { id: 'g', name: 'g' }, connected: true, leaving: false, confirmed: [] }],
  [/\/leaks\/report$/, { token: 'anything' }],
]
/** Answered without the database, or before it is asked. */
const WITHOUT = [
  /^GET \/assets\//,
  /^GET \/sign-in\/start$/,
  /^GET \/admin\/v1\/(?:openapi\.json|whoami)$/,
  // Redis is asked first.
  /^POST \/admin\/v1\/sync$/,
  // Without a signature of GitHub.
  /^POST \/leaks$/,
]

/** Sends each route a request that needs the database. @returns what was not answered by 503 and Retry-After */
export async function routesThatHideIt(running: EveryRoute, keyId: string): Promise<string[]> {
  const wrong: string[] = []
  for (const route of running.routes) {
    const name = `${route.method} ${route.url}`
    if (WITHOUT.some(known => known.test(name))) continue
    const { statusCode, headers, payload } = await ask(running, route, keyId)
    const isRight =
      statusCode === 503 &&
      Number(headers['retry-after']) > 0 &&
      (route.kind === 'page'
        ? payload.includes('Database unavailable')
        : payload.includes('database_unavailable'))
    if (!isRight) wrong.push(`${name} ${statusCode} ${payload.slice(0, 200)}`)
  }
  return wrong
}

function ask(running: EveryRoute, route: Route, keyId: string) {
  const tokenId = 'tok_01ARZ3NDEKTSV4RRFFQ69G5FAV'
  const url = pathOf(route, {
    workspaceId: 'ws_1',
    keyId,
    tokenId,
    digest: DIGEST,
    eventId: 'msg_01ARZ3NDEKTSV4RRFFQ69G5FAV',
  })
  return running.sendTo(route, url, bodyOf(running, route))
}

function bodyOf({ person }: EveryRoute, { kind, method, url }: Route): InjectOptions {
  if (method === 'GET') return {}
  if (kind === 'page') {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    return { headers, payload: new URLSearchParams({ _csrf: person.csrf }).toString() }
  }
  const body = BODIES.find(([path]) => path.test(url))?.[1]
  const headers = { 'if-match': '"1"' }
  if (body === undefined) return { headers }
  return { headers: { ...headers, 'content-type': 'application/json' }, payload: JSON.stringify(body) }
}

/** Waits until probes of the process say so. */
export async function untilDatabaseIs(state: 'ok' | 'failed', { health }: EveryRoute): Promise<void> {
  await until(`the database is ${state}`, async () => (await health()).database === state)
}

export async function issueKey({ send }: EveryRoute, headers: Readonly<Record<string, string>> = {}) {
  const issued = await send('POST', '/admin/v1/workspaces/ws_1/keys', KEY, { headers })
  return issued
}

/** @returns the total of each kind that occurred */
export async function databaseErrors({ metrics }: EveryRoute): Promise<Record<string, number>> {
  const { values } = await metrics.databaseErrors.get()
  const counted = values.filter(({ value }) => value > 0)
  expect(values.map(({ labels }) => labels.kind).sort()).toEqual(KINDS)
  return Object.fromEntries(counted.map(({ labels, value }) => [String(labels.kind), value]))
}

const KINDS = ['busy', 'damaged', 'full', 'read_only', 'refused', 'timeout', 'unreachable']
