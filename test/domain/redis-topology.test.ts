import { expect, test } from 'vitest'
import { findRedisTopology, type RedisLocation } from '../../src/domain/redis-address.ts'

const NONE: RedisLocation = { sentinel: { urls: [] }, cluster: { urls: [] } }

test.each<[string, Partial<RedisLocation>, object | null]>([
  ['no setting', {}, null],
  ['a URL', { url: 'redis://a' }, { kind: 'standalone', url: 'redis://a' }],
  [
    'Sentinels',
    { sentinel: { name: 'main', urls: ['redis://s'] } },
    { kind: 'sentinel', name: 'main', urls: ['redis://s'] },
  ],
  ['a name alone', { sentinel: { name: 'main', urls: [] } }, { kind: 'sentinel', name: 'main', urls: [] }],
  [
    'Sentinels alone',
    { sentinel: { urls: ['redis://s'] } },
    { kind: 'sentinel', name: '', urls: ['redis://s'] },
  ],
  ['nodes of a cluster', { cluster: { urls: ['redis://c'] } }, { kind: 'cluster', urls: ['redis://c'] }],
])('%s locates Redis', (_, location, topology) => {
  expect(findRedisTopology({ ...NONE, ...location })).toEqual(topology)
})
