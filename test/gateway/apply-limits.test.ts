import { afterEach, beforeEach, expect, test } from 'vitest'
import type { PolicyCount, RatePolicy } from '../../src/domain/rate-limit.ts'
import { GatewayHere } from '../support/gateway-here.ts'
import { field, get } from '../support/raw-client.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'

const FILES = '/api/v1/workspaces/ws_A/files'
const WORKSPACE = '/api/v1/workspaces/ws_A'

let upstream: RecordingUpstream
let gateway: GatewayHere
let counts: readonly PolicyCount[]
let key: string
let counted: string[]
beforeEach(async () => {
  counted = []
  upstream = await RecordingUpstream.start()
  gateway = await GatewayHere.start(upstream.url, {
    limits: {
      count: ({ route, grant }) => {
        if (route.name !== 'files') return null
        counted.push(`${route.name} ${grant.workspaceId}`)
        return Promise.resolve(counts)
      },
    },
  })
  key = gateway.issue('ws_A')
})
afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

function countOf(name: string, remaining: number, exceeded = false): PolicyCount {
  const policy: RatePolicy = { name, per: 'key', requests: 3, windowSeconds: 60 }
  return { policy, windowSeconds: 60, exceeded, remaining, resetMs: 1500 }
}

async function ask(target: string) {
  const [answer] = await gateway.open(get(target, key)).answers(1)
  if (answer === undefined) throw new Error('There is no response')
  return {
    status: answer.status,
    policy: field(answer, 'ratelimit-policy'),
    limit: field(answer, 'ratelimit'),
    retry: field(answer, 'retry-after'),
  }
}

test('each response of a limited route says what is left of every policy', async () => {
  counts = [countOf('burst', 2), countOf('day', 1)]
  expect(await ask(FILES)).toEqual({
    status: 200,
    policy: '"burst";q=3;w=60, "day";q=3;w=60',
    limit: '"burst";r=2;t=2, "day";r=1;t=2',
    retry: undefined,
  })
  expect(counted).toEqual(['files ws_A'])
})

test('a request above a limit is not forwarded, and its denial says when to come again', async () => {
  counts = [countOf('burst', 0, true)]
  expect(await ask(FILES)).toEqual({
    status: 429,
    policy: '"burst";q=3;w=60',
    limit: '"burst";r=0;t=2',
    retry: '2',
  })
  expect(upstream.requests).toEqual([])
})

test('a request that another check denies, or of another route, is not counted', async () => {
  counts = [countOf('burst', 0, true)]
  expect(await ask(WORKSPACE)).toMatchObject({ status: 200, policy: undefined })
  expect(await ask('/api/v1/workspaces/ws_B/files')).toMatchObject({ status: 404 })
  expect(await ask(`${FILES}?limit=x`)).toMatchObject({ status: 400, policy: undefined })
  expect(counted).toEqual([])
})
