import { describe, expect, it } from 'vitest'
import { findRedisTopology } from '../../src/domain/redis-address.ts'
import { configOf, mistakesOf } from './examples.ts'

/** In the examples Redis is a single server unless a test says otherwise. */
const NO_URL = { POSTERN_REDIS_URL: undefined }
const SENTINELS = 'redis-0:26379, redis-1:26379'

function topologyOf(environment: NodeJS.ProcessEnv) {
  return findRedisTopology(configOf({ environment }).redis)
}

function problemsOf(environment: NodeJS.ProcessEnv): string[] {
  return mistakesOf({ environment: { ...NO_URL, ...environment } })
}

describe('the topology of Redis', () => {
  it('is a single server if POSTERN_REDIS_URL is set', () => {
    const url = 'rediss://user:p%40ss@redis.internal:6380/2'
    expect(topologyOf({ POSTERN_REDIS_URL: url })).toEqual({ kind: 'standalone', url })
  })

  it('is Sentinels and the name of a primary', () => {
    expect(
      topologyOf({
        ...NO_URL,
        POSTERN_REDIS_SENTINEL_NAME: 'mymaster',
        POSTERN_REDIS_SENTINEL_URLS: SENTINELS,
      }),
    ).toEqual({ kind: 'sentinel', name: 'mymaster', urls: ['redis-0:26379', 'redis-1:26379'] })
  })

  it('is some nodes of a cluster', () => {
    const urls = 'redis://10.0.0.1:6379,redis://[::1]:7000'
    expect(topologyOf({ ...NO_URL, POSTERN_REDIS_CLUSTER_URLS: urls })).toEqual({
      kind: 'cluster',
      urls: ['redis://10.0.0.1:6379', 'redis://[::1]:7000'],
    })
  })

  it('is none if nothing is set: the gateway asks the key service alone', () => {
    const keyService = {
      POSTERN_KEY_SERVICE_URL: 'http://console:8082',
      POSTERN_KEY_SERVICE_TOKEN: 'a'.repeat(16),
    }
    expect(topologyOf({ ...NO_URL, ...keyService })).toBeNull()
  })
})

describe('a gateway without a key service', () => {
  it.each([
    { POSTERN_REDIS_SENTINEL_NAME: 'm', POSTERN_REDIS_SENTINEL_URLS: 's' },
    { POSTERN_REDIS_CLUSTER_URLS: 'node' },
  ])('is content with any kind of Redis: %j', environment => {
    expect(problemsOf(environment)).toEqual([])
  })

  it('requires one of them', () => {
    expect(problemsOf({})).toEqual([
      expect.stringMatching(/^redis\.url, keyService\.url at least one is required/),
    ])
  })
})

describe('settings that contradict each other are rejected, with what to set', () => {
  it.each([
    [
      { POSTERN_REDIS_URL: 'redis://r', POSTERN_REDIS_CLUSTER_URLS: 'node' },
      /^redis\.url, redis\.cluster\.urls contradict each other: set redis\.url for a single server/,
    ],
    [
      { POSTERN_REDIS_URL: 'redis://r', POSTERN_REDIS_SENTINEL_NAME: 'm', POSTERN_REDIS_SENTINEL_URLS: 's' },
      /^redis\.url, redis\.sentinel contradict each other/,
    ],
    [
      {
        POSTERN_REDIS_CLUSTER_URLS: 'node',
        POSTERN_REDIS_SENTINEL_NAME: 'm',
        POSTERN_REDIS_SENTINEL_URLS: 's',
      },
      /^redis\.sentinel, redis\.cluster\.urls contradict each other/,
    ],
    [{ POSTERN_REDIS_SENTINEL_NAME: 'm' }, /^redis\.sentinel\.urls is required with redis\.sentinel\.name/],
    [
      { POSTERN_REDIS_SENTINEL_URLS: 's' },
      /^redis\.sentinel\.name is required with redis\.sentinel\.urls.*mymaster/,
    ],
    [
      { POSTERN_REDIS_CLUSTER_URLS: 'rediss://a,redis://b' },
      /^POSTERN_REDIS_CLUSTER_URLS must be rediss: \(or valkeys:\) addresses all of them, or none/,
    ],
  ])('%j', (environment, problem) => {
    expect(problemsOf(environment)).toEqual([expect.stringMatching(problem)])
  })
})

describe('the address of a Sentinel or node', () => {
  it.each([
    'redis-0',
    'redis-0:26379',
    '10.0.0.1:1',
    '[::1]:26379',
    'redis://h',
    'rediss://redis.internal:6379',
    'valkey://valkey-0:6379',
    'valkeys://[::1]:6380',
  ])('may be %s', url => {
    expect(problemsOf({ POSTERN_REDIS_CLUSTER_URLS: url })).toEqual([])
  })

  it.each([
    'redis://user:hunter2@h',
    'hunter2@h',
    'h:0',
    'h:65536',
    'h:',
    'http://h',
    'redis://h/1',
    'redis://h?x=y',
    'unix:/run/redis',
  ])('is host and port and nothing more: %s is refused, and not repeated', url => {
    const problems = problemsOf({ POSTERN_REDIS_CLUSTER_URLS: JSON.stringify([url]) })
    expect(problems).toEqual([
      expect.stringMatching(/^POSTERN_REDIS_CLUSTER_URLS, at 0 must be host:port, or a redis:, rediss:/),
    ])
    expect(problems.join()).not.toContain('hunter2')
  })
})

describe('the address of a single Redis', () => {
  it.each([
    'valkey://valkey:6379',
    'valkeys://user:p%40ss@valkey.internal:6380/2',
    'rediss://[fd00::5]:6380/',
    'redis://user@h',
  ])('may be %s', url => {
    expect(problemsOf({ POSTERN_REDIS_URL: url })).toEqual([])
  })

  it.each([
    ['redis://h?db=2', 'query parameter db .*as the path'],
    ['rediss://h/?ssl_cert_reqs=none', 'query parameter ssl_cert_reqs .*always verified'],
    ['redis://h?socket_timeout=5', 'query parameter socket_timeout .*redis\\.commandTimeoutMs'],
    ['redis://h?client_name=x', 'query parameter client_name .*remove it'],
    ['redis://h?constructor=x', 'query parameter constructor .*remove it'],
    ['redis://h?%3Cb%3E=x', 'query parameter which has no effect'],
    ['redis://h/1#2', 'part after #'],
    ['redis://h/main', 'no database number'],
    ['redis:///run/redis.sock', 'socket is not supported'],
    ['unix:///run/redis.sock', 'socket is not supported'],
  ])('is refused where a part of it would have no effect: %s', (url, problem) => {
    const problems = problemsOf({ POSTERN_REDIS_URL: url })
    expect(problems).toEqual([expect.stringMatching(new RegExp(problem))])
    const region = { name: 'eu', redis: { url } }
    expect(mistakesOf({ environment: { ...NO_URL, POSTERN_REGIONS: JSON.stringify([region]) } })).not.toEqual(
      [],
    )
  })
})
