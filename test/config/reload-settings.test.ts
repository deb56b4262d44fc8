import { describe, expect, it } from 'vitest'
import { RELOADABLE_SETTINGS, reloadSettings } from '../../src/config/reload-settings.ts'
import { fileSettings, settings } from '../../src/config/settings.ts'
import { configOf, signingSecret } from './examples.ts'

const base = {
  POSTERN_UPSTREAM_URL: 'http://files',
  POSTERN_REDIS_URL: 'redis://user:one@redis:6379/1',
  POSTERN_DATABASE_URL: 'postgres://console:one@db/postern',
}
const read = (more: Record<string, string> = {}) => configOf({ environment: { ...base, ...more } })

describe('a reload applies', () => {
  it('every secret and every file', () => {
    const expected = [...settings.filter(({ secret }) => secret), ...fileSettings].map(({ path }) => path)
    expect(expected.filter(path => !RELOADABLE_SETTINGS.has(path))).toEqual([])
    const known = settings.map(({ path }) => path)
    expect([...RELOADABLE_SETTINGS].filter(path => !known.includes(path))).toEqual([])
  })

  it('nothing if nothing changed', () => {
    expect(reloadSettings(read(), read())).toEqual({ config: read(), changed: [], needRestart: [] })
  })

  it('reloadable settings, and names those that need a restart', () => {
    const next = {
      POSTERN_KEY_SERVICE_TOKEN: 'new-token-of-the-tests',
      POSTERN_KEYS_SIGNING_SECRETS: signingSecret(7),
      POSTERN_GATEWAY_MAX_IN_FLIGHT: '7',
      POSTERN_UPSTREAM_URL: 'http://elsewhere',
    }
    const { config, changed, needRestart } = reloadSettings(read(), read(next))
    expect(changed).toEqual(['keyService.token', 'keys.signingSecrets'])
    expect(needRestart).toEqual(['gateway.maxInFlight', 'upstream.url'])
    expect(config).toEqual(
      read({
        POSTERN_KEY_SERVICE_TOKEN: 'new-token-of-the-tests',
        POSTERN_KEYS_SIGNING_SECRETS: signingSecret(7),
      }),
    )
  })

  it('another user and password in an address', () => {
    const url = 'redis://other:two@redis:6379/1'
    expect(reloadSettings(read(), read({ POSTERN_REDIS_URL: url })).config.redis.url).toBe(url)
  })

  it.each([
    ['redis.url', { POSTERN_REDIS_URL: 'redis://user:one@other:6379/1' }],
    ['redis.url', { POSTERN_REDIS_URL: 'rediss://user:one@redis:6379/1' }],
    ['redis.url', { POSTERN_REDIS_URL: 'redis://user:one@redis:6379/2' }],
    ['database.url', { POSTERN_DATABASE_URL: 'postgres://console:one@db/other' }],
    ['database.url', { POSTERN_DATABASE_URL: 'sqlite:postern.db' }],
  ])('nothing at all where %s leads elsewhere: %o', (path, next) => {
    expect(() => reloadSettings(read(), read(next))).toThrow(`${path}: only user and password can change`)
  })
})

describe('a running process never goes from some secrets to none', () => {
  const one: Readonly<Record<string, string>> = {
    POSTERN_UPSTREAM_HEADERS: '{ X-Token: abc }',
    POSTERN_REDIS_URL: 'redis://redis:6379',
    POSTERN_DATABASE_URL: 'postgres://console:one@db/postern',
    POSTERN_KEYS_SIGNING_SECRETS: signingSecret(7),
    POSTERN_CONSOLE_WEBHOOK_SECRET: signingSecret(8),
    HTTPS_PROXY: 'http://user:one@proxy:3128',
    HTTP_PROXY: 'http://user:one@proxy:3128',
  }

  it.each(
    settings
      .filter(({ secret, path }) => secret && path !== 'database.url')
      .map(({ path, environment }) => [path, environment]),
  )('%s', (path, environment) => {
    const needed = { POSTERN_CONSOLE_WEBHOOK_URL: 'https://hooks.example.com', POSTERN_KEYS_FORMAT: 'opaque' }
    const value = one[environment] ?? 'x'.repeat(20)
    // Where it may be missing at all; elsewhere the settings are refused before that.
    const running = configOf({ environment: { ...needed, ...one, [environment]: value } })
    const read = structuredClone(running)
    const [name = '', ...sections] = path.split('.').reverse()
    const section = sections
      .reverse()
      .reduce<unknown>((parent, part) => Reflect.get(Object(parent), part), read)
    const empties = path === 'keys.signingSecrets' ? [[]] : path === 'upstream.headers' ? [{}] : [undefined]
    for (const empty of empties) {
      Reflect.set(Object(section), name, empty)
      expect(() => reloadSettings(running, read)).toThrow(path)
    }
  })

  it('but it goes from some to others, and from none to some', () => {
    const token = { POSTERN_ADMIN_TOKEN: 'x'.repeat(20) }
    expect(reloadSettings(read(), read(token)).config.console.adminToken).toEqual(['x'.repeat(20)])
    const two = { POSTERN_KEYS_SIGNING_SECRETS: `${signingSecret(7)},${signingSecret(8)}` }
    const fewer = { POSTERN_KEYS_SIGNING_SECRETS: signingSecret(8) }
    expect(reloadSettings(read(two), read(fewer)).changed).toEqual(['keys.signingSecrets'])
  })
})
