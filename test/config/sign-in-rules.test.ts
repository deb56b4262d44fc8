import { describe, expect, test } from 'vitest'
import { printConfig } from '../../src/config/print-config.ts'
import { configOf, fileWith, mistakesOf } from './examples.ts'

/** The least with which people can sign in. */
const ENOUGH = {
  POSTERN_CONSOLE_PUBLIC_URL: 'https://keys.example.com',
  POSTERN_CONSOLE_OIDC_ISSUER: 'https://login.example.com/realms/x',
  POSTERN_CONSOLE_OIDC_CLIENT_ID: 'postern',
}
const mistakes = (change: NodeJS.ProcessEnv) => mistakesOf({ environment: { ...ENOUGH, ...change } })

describe('sign-in', () => {
  test('needs the public address, a provider and a client id; all else has defaults', () => {
    const { publicUrl, oidc, session } = configOf({ environment: ENOUGH }).console
    expect(publicUrl).toBe('https://keys.example.com')
    expect(oidc).toMatchObject({
      scopes: ['profile', 'email'],
      workspacesClaim: 'workspaces',
      timeoutMs: 5000,
    })
    expect(oidc).not.toHaveProperty('administratorClaim')
    expect(session).toEqual({ idleSeconds: 3600, absoluteSeconds: 43_200, maxPerPerson: 20 })
  })

  test('reads the client secret from a file, and never prints it', () => {
    const file = fileWith('a-client-secret\n')
    const config = configOf({ environment: { ...ENOUGH, POSTERN_CONSOLE_OIDC_CLIENT_SECRET_FILE: file } })
    expect(config.console.oidc.clientSecret).toBe('a-client-secret')
    expect(printConfig(config)).not.toContain('a-client-secret')
  })

  test.each<[string, NodeJS.ProcessEnv, RegExp]>([
    ['a name at the provider', { POSTERN_CONSOLE_OIDC_CLIENT_ID: '' }, /oidc\.clientId is required/],
    [
      'an address to come back to',
      { POSTERN_CONSOLE_PUBLIC_URL: '' },
      /publicUrl is required .*sends people back/,
    ],
    ['a provider', { POSTERN_CONSOLE_OIDC_ISSUER: '' }, /oidc\.issuer is required/],
    [
      'a client secret that a way of sending it is set for',
      { POSTERN_CONSOLE_OIDC_TOKEN_ENDPOINT_AUTH_METHOD: 'client_secret_post' },
      /oidc\.clientSecret is required .*a public client has none/,
    ],
  ])('is refused without %s', (_, change, text) => {
    expect(mistakes(change)).toEqual([expect.stringMatching(text)])
  })

  test.each<[string, NodeJS.ProcessEnv, RegExp]>([
    [
      'over http, which others could read',
      { POSTERN_CONSOLE_PUBLIC_URL: 'http://keys.example.com' },
      /must be https/,
    ],
    ['below a path', { POSTERN_CONSOLE_PUBLIC_URL: 'https://example.com/keys' }, /must have no path/],
    ['at a provider over http', { POSTERN_CONSOLE_OIDC_ISSUER: 'http://login.example.com' }, /must be https/],
    [
      'with a session that is idle for longer than it lasts',
      { POSTERN_CONSOLE_SESSION_ABSOLUTE_SECONDS: '600' },
      /is longer than/,
    ],
    [
      'with a session that never ends',
      { POSTERN_CONSOLE_SESSION_ABSOLUTE_SECONDS: '99999999' },
      /a number from 60 to/,
    ],
    ['with a limit of nothing', { POSTERN_CONSOLE_SIGN_INS_PER_MINUTE: '0' }, /from 1 to/],
    ['with a proxy that is no address', { POSTERN_CONSOLE_TRUSTED_PROXIES: 'every client' }, /CIDR/],
  ])('is refused %s', (_, change, text) => {
    expect(mistakes(change)).toEqual([expect.stringMatching(text)])
  })

  test.each([
    'http://localhost:8081',
    'http://127.0.0.1:8081/',
    'http://[::1]:8081',
    'https://keys.example.com/',
  ])('works at %s', url => {
    expect(mistakes({ POSTERN_CONSOLE_PUBLIC_URL: url })).toEqual([])
  })

  test.each([
    'http://localhost.evil.example',
    'http://127.0.0.1.evil.example',
    'http://localhost@evil.example',
  ])('%s is not this machine', url => {
    expect(mistakes({ POSTERN_CONSOLE_PUBLIC_URL: url })).not.toEqual([])
  })

  test('no setting allows sign-in without a provider', () => {
    for (const name of ['POSTERN_CONSOLE_ONE_TIME_LINK', 'POSTERN_CONSOLE_DEMO', 'POSTERN_DEMO'])
      expect(mistakes({ [name]: 'true' })).toEqual([`${name} is not a setting`])
  })
})
