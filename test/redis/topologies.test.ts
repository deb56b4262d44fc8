import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { ClusterGroup } from '../support/redis-cluster.ts'
import { Fleet } from '../support/redis-fleet.ts'
import type { RedisGroup } from '../support/redis-group.ts'
import { SentinelGroup } from '../support/redis-sentinel.ts'
import { startStandalone } from '../support/redis-standalone.ts'

const printed = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'error'), vi.spyOn(process, 'emitWarning')]
afterEach(() => {
  for (const spy of printed) expect(spy).not.toHaveBeenCalled()
})

describe.each([
  ['a single Redis', () => startStandalone()],
  ['Redis with Sentinels', () => SentinelGroup.start()],
  ['a Redis Cluster', () => ClusterGroup.start({ replicas: 1 })],
] as const)('over %s, with the rights of the README and no other', (_, start) => {
  let group: RedisGroup
  beforeAll(async () => {
    group = await start()
  })
  afterAll(() => group.stop())

  test('gateways find the keys that a console issues, and refuse those that it revokes', async () => {
    const fleet = await Fleet.start(group, { origin: false })
    const keys = await Promise.all(Array.from({ length: 20 }, () => fleet.issue()))
    for (const { digest } of keys) await fleet.allJudge(digest, 'good')
    for (const { id } of keys) expect(await fleet.revoke(id)).toMatchObject({ announced: true })
    for (const { digest } of keys) await fleet.allJudge(digest, 'revoked', 1_000)
    expect(await group.refused()).toEqual([])
    for (const { log } of fleet.replicas) expect(log.lines).toEqual([])
    expect(fleet.console.log.filter(line => Number(line['level']) > 30)).toEqual([])
  })
})
