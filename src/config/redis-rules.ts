import { mistakeIf, type Rule } from './rule.ts'
import type { Mistake } from './sources.ts'

/** One kind of Redis or none; half a kind would be none, unnoticed. */
export const redisRules: readonly Rule[] = [
  {
    about: ['redis.url', 'redis.sentinel.name', 'redis.sentinel.urls', 'redis.cluster.urls'],
    check: ({ redis: { url, sentinel, cluster } }) => {
      const places = [
        ...(url === undefined ? [] : ['redis.url']),
        ...(sentinel.name === undefined && sentinel.urls.length === 0 ? [] : ['redis.sentinel']),
        ...(cluster.urls.length === 0 ? [] : ['redis.cluster.urls']),
      ]
      return mistakeIf(
        places.length > 1,
        places.join(', '),
        'contradict each other: set redis.url for a single server, redis.sentinel.name and redis.sentinel.urls for Sentinel, or redis.cluster.urls for Redis Cluster',
      )
    },
  },
  {
    about: ['redis.sentinel.name', 'redis.sentinel.urls'],
    check: ({ redis: { sentinel } }) => [
      ...mistakeIf(
        sentinel.name !== undefined && sentinel.urls.length === 0,
        'redis.sentinel.urls',
        'is required with redis.sentinel.name: where the Sentinels are',
      ),
      ...mistakeIf(
        sentinel.urls.length > 0 && sentinel.name === undefined,
        'redis.sentinel.name',
        'is required with redis.sentinel.urls: the name of the primary (often mymaster)',
      ),
    ],
  },
  {
    about: ['redis.sentinel.urls'],
    check: ({ redis }) => checkOneScheme('redis.sentinel.urls', redis.sentinel.urls),
  },
  {
    about: ['redis.cluster.urls'],
    check: ({ redis }) => checkOneScheme('redis.cluster.urls', redis.cluster.urls),
  },
]

/** What is learnt from these nodes has no scheme of its own: it is spoken to as they are. */
function checkOneScheme(spelling: string, urls: readonly string[]): Mistake[] {
  const encrypted = urls.filter(url => url.startsWith('rediss:')).length
  const mixed = encrypted > 0 && encrypted < urls.length
  return mistakeIf(mixed, spelling, 'must be rediss: addresses all of them, or none')
}
