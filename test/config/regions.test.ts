import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { printConfig } from '../../src/config/print-config.ts'
import { reloadSettings } from '../../src/config/reload-settings.ts'
import { configOf, fileWith, load, mistakesOf } from './examples.ts'

const NO_REDIS = { POSTERN_REDIS_URL: undefined }
const region = (name: string, redis: object) => ({ name, redis })
const EU = region('eu', { url: 'redis://:one@redis.eu:6379' })

const sources = (...regions: object[]) => ({
  environment: { ...NO_REDIS, POSTERN_REGIONS: JSON.stringify(regions) },
  planes: ['console'] as const,
})
const regionsOf = (...regions: object[]) => configOf(sources(...regions)).regions
const mistakes = (...regions: object[]) => mistakesOf(sources(...regions))

describe('the regions of a console', () => {
  it('are none by default', () => {
    expect(configOf().regions).toEqual([])
  })

  it('have time-outs for a long way, unless a region says otherwise', () => {
    const [eu, us] = regionsOf(EU, region('us', { url: 'redis://redis.us', commandTimeoutMs: 300 }))
    expect(eu).toEqual({
      name: 'eu',
      redis: {
        url: 'redis://:one@redis.eu:6379',
        sentinel: { urls: [] },
        cluster: { urls: [] },
        commandTimeoutMs: 1000,
        connectTimeoutMs: 2000,
      },
    })
    expect(us?.redis).toMatchObject({ commandTimeoutMs: 300, connectTimeoutMs: 2000 })
  })

  it('may be Sentinels or a cluster, in YAML too', () => {
    const file = `
regions:
  - name: eu
    redis: { sentinel: { name: mymaster, urls: [redis-0:26379] } }
  - name: us
    redis: { cluster: { urls: ['[::1]:7000'] }, username: console }
`
    const { regions } = configOf({ environment: NO_REDIS, file, planes: ['console'] })
    expect(regions.map(({ redis }) => redis)).toMatchObject([
      { sentinel: { name: 'mymaster', urls: ['redis-0:26379'] } },
      { cluster: { urls: ['[::1]:7000'] }, username: 'console' },
    ])
  })

  it('take secrets from files, and notice that those change', () => {
    const [url, password] = [fileWith('rediss://redis.eu'), fileWith('a password')]
    const entry = region('eu', { urlFile: url, passwordFile: password })
    expect(regionsOf(entry)[0]?.redis).toMatchObject({ url: 'rediss://redis.eu', password: 'a password' })
    const loaded = load(sources(entry))
    expect(loaded.ok && [...loaded.files.keys()]).toEqual(expect.arrayContaining([url, password]))
  })

  it.each([
    ['two of a name', [EU, EU], /regions, at eu has the name of another region/],
    ['no Redis', [region('eu', {})], /regions, at eu needs exactly one of redis\.url/],
    ['two kinds', [region('eu', { url: 'redis://a', cluster: { urls: ['b'] } })], /needs exactly one/],
    ['half of Sentinel', [region('eu', { sentinel: { urls: ['a'] } })], /needs both redis\.sentinel\.name/],
    [
      'mixed encryption',
      [region('eu', { cluster: { urls: ['rediss://a', 'b'] } })],
      /rediss: \(or valkeys:\) addresses all/,
    ],
    ['no name for people', [region('EU West', { url: 'redis://a' })], /REGIONS, at 0\.name/],
    ['an address twice', [region('eu', { url: 'redis://a', urlFile: '/b' })], /is set twice/],
    ['a file that is not there', [region('eu', { urlFile: '/nowhere' })], /cannot be read: ENOENT/],
  ])('are refused with %s', (_, regions, expected) => {
    const found = mistakes(...regions)
    expect(found).toEqual(expect.arrayContaining([expect.stringMatching(expected)]))
  })

  it('are refused with an address of something else in a file', () => {
    const found = mistakes(region('eu', { urlFile: fileWith('http://a') }))
    expect(found).toEqual([expect.stringMatching(/redis\.url must be redis:/)])
  })

  it('are refused beside redis at the console, and ignored by a gateway', () => {
    const environment = { POSTERN_REGIONS: JSON.stringify([EU]) }
    expect(mistakesOf({ environment, planes: ['console'] })).toEqual([
      expect.stringMatching(/^redis, regions contradict each other at the console/),
    ])
    expect(mistakesOf({ environment, planes: ['gateway'] })).toEqual([])
  })

  it('are printed without their passwords, so that they can be loaded again', () => {
    const entry = region('eu', {
      sentinel: { name: 'm', urls: ['a:26379'], password: 'canary-1' },
      password: 'canary-2',
    })
    const printed = printConfig(configOf(sources(entry, region('us', { url: 'redis://:canary-3@us' }))))
    expect(printed).not.toContain('canary')
    const { regions } = parse(printed) as { regions: object[] }
    expect(mistakes(...regions)).toEqual([])
  })

  it('take new passwords while the console runs, and new addresses after a restart', () => {
    const config = (...regions: object[]) => configOf(sources(...regions))
    const running = config(EU)
    const rotated = reloadSettings(running, config(region('eu', { url: 'redis://:two@redis.eu:6379' })))
    expect([rotated.changed, rotated.needRestart]).toEqual([['regions'], []])
    expect(rotated.config.regions[0]?.redis.url).toBe('redis://:two@redis.eu:6379')
    const moved = reloadSettings(running, config(region('eu', { url: 'redis://:one@elsewhere:6379' })))
    expect([moved.changed, moved.needRestart]).toEqual([[], ['regions']])
  })
})

describe('the region of a gateway', () => {
  it('is none by default, and a name', () => {
    expect(configOf().region).toBeUndefined()
    expect(configOf({ environment: { POSTERN_REGION: 'eu' } }).region).toBe('eu')
    expect(mistakesOf({ environment: { POSTERN_REGION: 'EU' } })).toEqual([
      expect.stringMatching(/^POSTERN_REGION must be/),
    ])
  })
})
