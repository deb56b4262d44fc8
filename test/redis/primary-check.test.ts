import { expect, test } from 'vitest'
import type { Endpoint } from '../../src/redis/endpoint.ts'
import { PrimaryCheck } from '../../src/redis/sentinels.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { settled } from '../support/until.ts'

const CONNECTED: Endpoint = { host: '10.0.0.1', port: 6379 }
const OTHER: Endpoint = { host: '10.0.0.2', port: 6379 }

function checked() {
  const timers = new ManualTimers()
  const queries: PromiseWithResolvers<Endpoint>[] = []
  let connected: Endpoint | null = CONNECTED
  let others = 0
  const check = new PrimaryCheck({
    query: {
      ask() {
        const query = Promise.withResolvers<Endpoint>()
        queries.push(query)
        return query.promise
      },
      renew: () => {},
      stop: () => {},
    },
    timers,
    connectedTo: () => connected,
    onOther: () => void others++,
  })
  const connect = (to: Endpoint | null): void => {
    connected = to
  }
  return { check, timers, queries, connect, others: () => others }
}

test('the server that a majority of the Sentinels names is confirmed', async () => {
  const { check, queries } = checked()
  const confirmed = check.confirm()
  await settled()
  queries[0]?.resolve({ ...CONNECTED })
  expect(await confirmed).toBe(true)
})

test('another one is not, and the connection is replaced', async () => {
  const { check, queries, others } = checked()
  const confirmed = check.confirm()
  await settled()
  queries[0]?.resolve(OTHER)
  expect(await confirmed).toBe(false)
  expect(others()).toBe(1)
})

test('nothing is confirmed without a majority, or if the connection was replaced meanwhile', async () => {
  const { check, timers, queries, connect, others } = checked()
  const silent = check.confirm()
  await settled()
  queries[0]?.reject(new Error('No majority'))
  expect(await silent).toBe(false)
  timers.advance(1_000)
  const moved = check.confirm()
  await settled()
  connect({ ...CONNECTED })
  queries[1]?.resolve(CONNECTED)
  expect(await moved).toBe(false)
  expect(others()).toBe(0)
})

test('many calls share a query, and none uses one that was asked before it', async () => {
  const { check, timers, queries } = checked()
  const first = check.confirm()
  await settled()
  const later = Array.from({ length: 100 }, () => check.confirm())
  queries[0]?.resolve(CONNECTED)
  expect(await first).toBe(true)
  timers.advance(1_000)
  await settled()
  expect(queries).toHaveLength(2)
  queries[1]?.resolve(CONNECTED)
  expect(await Promise.all(later)).not.toContain(false)
})
