import { describe, expect, test } from 'vitest'
import { assertionKeyPem } from '../support/assertion-keys.ts'
import { configOf, fileWith, mistakesOf } from './examples.ts'

const KEY = assertionKeyPem()
const NAMES = {
  POSTERN_UPSTREAM_ASSERTION_ISSUER: 'https://api.example.com',
  POSTERN_UPSTREAM_ASSERTION_AUDIENCE: 'files',
}
const mistakesWith = (files: readonly string[], environment: Record<string, string> = NAMES) =>
  mistakesOf({ environment: { ...environment, POSTERN_UPSTREAM_ASSERTION_KEY_FILES: files.join(',') } })

describe('the keys that sign assertions', () => {
  test('are files with one Ed25519 key each', () => {
    const files = [fileWith(KEY), fileWith(assertionKeyPem())]
    expect(mistakesWith(files)).toEqual([])
    const environment = { ...NAMES, POSTERN_UPSTREAM_ASSERTION_KEY_FILES: files.join(',') }
    expect(configOf({ environment }).upstream.assertion).toMatchObject({ keyFiles: files, bind: 'key' })
  })

  test('are rejected at the start with how to make one', () => {
    expect(mistakesWith([fileWith(KEY), fileWith('text')])).toEqual([
      'upstream.assertion.keyFiles, at 1 names a file that holds no private key in PEM. Make one with `openssl genpkey -algorithm ed25519 -out FILE`',
    ])
    expect(mistakesWith(['/not/here.pem'])).toEqual([
      expect.stringContaining('at 0 names a file that cannot be read: ENOENT'),
    ])
  })

  test('are rejected while two files hold the same key, which is half of a rotation', () => {
    expect(mistakesWith([fileWith(KEY), fileWith(KEY)])).toEqual([
      'upstream.assertion.keyFiles, at 1 holds the same key as the file at 0',
    ])
  })

  test('are eight at most', () => {
    const files = Array.from({ length: 9 }, () => fileWith(assertionKeyPem()))
    expect(mistakesWith(files)).toHaveLength(1)
  })

  test('are not read for a console', () => {
    const environment = { ...NAMES, POSTERN_UPSTREAM_ASSERTION_KEY_FILES: '/not/here.pem' }
    expect(mistakesOf({ environment, planes: ['console'] })).toEqual([])
  })
})

test('assertions need an issuer and an audience, and both need keys', () => {
  expect(mistakesWith([fileWith(KEY)], {})).toEqual([
    expect.stringContaining('upstream.assertion.issuer is required with upstream.assertion.keyFiles'),
    expect.stringContaining('upstream.assertion.audience is required with upstream.assertion.keyFiles'),
  ])
  expect(mistakesOf({ environment: NAMES })).toEqual([
    expect.stringContaining('upstream.assertion.keyFiles is required with upstream.assertion.issuer'),
    expect.stringContaining('upstream.assertion.keyFiles is required with upstream.assertion.audience'),
  ])
})

test('an assertion lives long enough for a request to wait for a connection', () => {
  const short = { ...NAMES, POSTERN_UPSTREAM_ASSERTION_LIFETIME_SECONDS: '12' }
  expect(mistakesWith([fileWith(KEY)], short)).toEqual([
    expect.stringContaining('POSTERN_UPSTREAM_ASSERTION_LIFETIME_SECONDS is too short'),
  ])
  expect(mistakesWith([fileWith(KEY)], { ...short, POSTERN_UPSTREAM_QUEUE_MAX_WAIT_MS: '4000' })).toEqual([])
})
