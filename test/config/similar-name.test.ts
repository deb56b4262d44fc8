import { describe, expect, test } from 'vitest'
import { similarTo } from '../../src/config/similar-name.ts'
import { mistakesOf } from './examples.ts'

describe('a similar name', () => {
  test.each([
    ['gatway', 'gateway'],
    ['gatewya', 'gateway'],
    ['gatewayy', 'gateway'],
    ['getaway', 'gateway'],
    ['upstraem.headersTimeout', 'upstream.headersTimeoutMs'],
  ])('%s: did you mean %s?', (name, meant) => {
    const candidates = ['console', meant, 'log.level']
    expect(similarTo(name, candidates)).toBe(` (did you mean ${meant}?)`)
  })

  test.each(['', 'x', 'ops', 'something else', 'gt'])('none is suggested for %j', name => {
    expect(similarTo(name, ['gateway', 'console', 'log'])).toBe('')
  })

  test('the most similar one is suggested', () => {
    expect(similarTo('console.hots', ['console.port', 'console.host', 'console.oidc'])).toContain(
      'console.host',
    )
  })
})

test.each<[string, Parameters<typeof mistakesOf>[0], string]>([
  ['a variable', { environment: { POSTERN_UPSTREM_URL: 'x' } }, 'did you mean POSTERN_UPSTREAM_URL?'],
  [
    'a variable for a file',
    { environment: { POSTERN_KEY_SERVICE_TOKENFILE: 'x' } },
    'did you mean POSTERN_KEY_SERVICE_TOKEN_FILE?',
  ],
  ['a nested name', { file: 'upstream: { conections: 5 }' }, 'did you mean upstream.connections?'],
  ['a section', { file: 'keyservice: { url: "http://u" }' }, 'did you mean keyService?'],
  ['a setting', { file: 'keys: { stalSeconds: 5 }' }, 'did you mean keys.staleSeconds?'],
  [
    'a field of a route',
    { file: 'routes: { own: { path: "/a/{workspaceId}", scpoe: "files:read" } }' },
    'has an unknown field: scpoe (did you mean scope?)',
  ],
  [
    'a field of a list',
    { file: 'limits: { policies: [{ name: a, per: key, request: 1, requests: 1, windowSeconds: 1 }] }' },
    'has an unknown field: request (did you mean requests?)',
  ],
  ['a file', { file: 'keys: { signingSecretFile: /x }' }, 'did you mean keys.signingSecretsFile?'],
])('the right name is suggested for a misspelt name of %s', (_, sources, suggestion) => {
  expect(mistakesOf(sources)).toEqual([expect.stringContaining(suggestion)])
})

test('a missing secret comes with the command that makes one, and the variable that takes its file', () => {
  expect(mistakesOf({ environment: { POSTERN_KEYS_SIGNING_SECRETS: undefined } })).toEqual([
    'keys.signingSecrets is required. Make one with `openssl rand -base64 32`, save it in a file, and set POSTERN_KEYS_SIGNING_SECRETS_FILE to the name of the file',
  ])
  const [token] = mistakesOf({ environment: { POSTERN_KEY_SERVICE_URL: 'http://console:8082' } })
  expect(token).toContain('POSTERN_KEY_SERVICE_TOKEN_FILE')
})
