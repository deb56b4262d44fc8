import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findUnnamed, nameUnnamedHosts } from '../../src/redis/clients.ts'
import { ClusterGroup } from '../support/redis-cluster.ts'
import { Fleet } from '../support/redis-fleet.ts'

describe.each([
  // The nodes are reached by another name than they know of themselves, as behind a load balancer.
  ['null', 'unknown-endpoint', '127.0.0.1'],
  ['"?"', 'hostname', 'localhost'],
])('a cluster whose nodes name their hosts as %s', (_name, type, host) => {
  let group: ClusterGroup
  beforeAll(async () => {
    const settings = ['--cluster-preferred-endpoint-type', type]
    group = await ClusterGroup.start({ replicas: 0, settings, host })
  })
  afterAll(() => group.stop())

  test('is reached at the host that was asked: every key is read, and a revocation arrives', async () => {
    const fleet = await Fleet.start(group, { gateways: 1, keyService: false })
    // Enough for every node to hold some.
    const keys = await Promise.all(Array.from({ length: 12 }, () => fleet.issue()))
    for (const { digest } of keys) await fleet.untilVerdict(digest, 'good')
    for (const { id, digest } of keys) {
      expect(await fleet.revoke(id)).toMatchObject({ announced: true })
      await fleet.untilVerdict(digest, 'revoked')
    }
  })
})

test('only hosts without a name are replaced', () => {
  const replica = ['10.0.0.9', 6379, 'id', []]
  const reply = [
    [0, 5460, [null, 7000, 'id', []], replica],
    [5461, 16_383, ['', 7001], ['?', 7002]],
  ]
  const named = nameUnnamedHosts(reply)
  expect(JSON.stringify(named)).not.toMatch(/null|"\?"|""/)
  expect(named).toMatchObject([
    [0, 5460, [expect.any(String), 7000, 'id', []], replica],
    [5461, 16_383, {}, {}],
  ])
  expect([nameUnnamedHosts('OK'), nameUnnamedHosts(null)]).toEqual(['OK', null])
  expect(findUnnamed(':7000', 'lb.internal')).toEqual({ host: 'lb.internal', port: 7000 })
  expect(findUnnamed('10.0.0.9:6379', 'lb.internal')).toBeNull()
  expect(findUnnamed('fd00::5:6379', 'lb.internal')).toBeNull()
})
