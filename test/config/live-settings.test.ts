import { describe, expect, it } from 'vitest'
import { FILE_SETTINGS, LIVE_SETTINGS, takeOver } from '../../src/config/live-settings.ts'
import { settings } from '../../src/config/settings.ts'
import { configOf, signingSecret } from './examples.ts'

/** Secrets and files that only a restart changes; each with its reason in the README. */
const WAITING: readonly string[] = []

const base = {
  POSTERN_UPSTREAM_URL: 'http://files',
  POSTERN_REDIS_URL: 'redis://user:one@redis:6379/1',
  POSTERN_DATABASE_URL: 'postgres://console:one@db/postern',
}
const read = (more: Record<string, string> = {}) => configOf({ environment: { ...base, ...more } })

describe('of settings that were read again a running process takes', () => {
  it('every secret and every file, unless it is named as one that waits', () => {
    const expected = [
      ...settings.filter(({ secret }) => secret).map(({ path }) => path),
      ...FILE_SETTINGS,
    ].filter(path => !WAITING.includes(path))
    expect(expected.filter(path => !LIVE_SETTINGS.has(path))).toEqual([])
    const known = settings.map(({ path }) => path)
    expect([...LIVE_SETTINGS].filter(path => !known.includes(path))).toEqual([])
  })

  it('nothing where nothing changed', () => {
    expect(takeOver(read(), read())).toEqual({ config: read(), changed: [], held: [] })
  })

  it('what can change, and names what waits for a restart', () => {
    const next = {
      POSTERN_ORIGIN_TOKEN: 'new',
      POSTERN_KEYS_SIGNING_SECRETS: signingSecret(7),
      POSTERN_GATEWAY_MAX_IN_FLIGHT: '7',
      POSTERN_UPSTREAM_URL: 'http://elsewhere',
    }
    const { config, changed, held } = takeOver(read(), read(next))
    expect(changed).toEqual(['origin.token', 'keys.signingSecrets'])
    expect(held).toEqual(['gateway.maxInFlight', 'upstream.url'])
    expect(config).toEqual(
      read({ POSTERN_ORIGIN_TOKEN: 'new', POSTERN_KEYS_SIGNING_SECRETS: signingSecret(7) }),
    )
  })

  it('also that a secret is gone', () => {
    const { config, changed } = takeOver(read({ POSTERN_ADMIN_TOKEN: 'x'.repeat(20) }), read())
    expect([changed, 'adminToken' in config.console]).toEqual([['console.adminToken'], false])
  })

  it('another user and password in an address', () => {
    const url = 'redis://other:two@redis:6379/1'
    expect(takeOver(read(), read({ POSTERN_REDIS_URL: url })).config.redis.url).toBe(url)
  })

  it.each([
    ['redis.url', { POSTERN_REDIS_URL: 'redis://user:one@other:6379/1' }],
    ['redis.url', { POSTERN_REDIS_URL: 'rediss://user:one@redis:6379/1' }],
    ['redis.url', { POSTERN_REDIS_URL: 'redis://user:one@redis:6379/2' }],
    ['database.url', { POSTERN_DATABASE_URL: 'postgres://console:one@db/other' }],
    ['database.url', { POSTERN_DATABASE_URL: 'sqlite:postern.db' }],
  ])('nothing at all where %s leads elsewhere: %o', (path, next) => {
    expect(() => takeOver(read(), read(next))).toThrow(`${path}: only user and password can change`)
  })
})
