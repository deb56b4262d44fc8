import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { describeFinding, MAX_PLACE_LENGTH } from '../../../src/console/leaks/operations.ts'
import { importSigningSecret, mintSecret } from '../../../src/domain/key/secret.ts'

const signingKey = importSigningSecret(randomBytes(32))
const token = mintSecret('wsk_', randomBytes(32), signingKey).reveal()
const other = mintSecret('wsk_', randomBytes(32), signingKey).reveal()
const placeOf = (url: unknown) => describeFinding({ url }, { token, keyPrefix: 'wsk_' }).foundAt

describe('the place of a finding', () => {
  test('is recorded as it was reported', () => {
    const url = 'https://github.com/octocat/hello/blob/1234/a%20b.sh#L3'
    expect(placeOf(url)).toBe(url)
    expect(placeOf('on a slide, page 3')).toBe('on a slide, page 3')
  })

  test('is bounded, without control characters, and without characters that hide or turn text', () => {
    expect(placeOf(`https://a\r\nb\u0000\u001b[31m\u202e\u200b/c`)).toBe('https://ab[31m/c')
    expect([...(placeOf(`https://a/${'🔑'.repeat(4000)}`) ?? '')]).toHaveLength(MAX_PLACE_LENGTH)
    expect(placeOf('\ud800a')?.isWellFormed()).toBe(true)
  })

  test.each([
    `https://example.com/?key=${token}`,
    `https://example.com/${other}/x`,
    `https://example.com/?key=%77${token.slice(1)}`,
    `https://example.com/${token.slice(0, 9)}\u200b${token.slice(9)}`,
    token,
  ])('is not recorded where it contains a key', url => {
    expect(placeOf(url)).toBeNull()
  })

  test.each([undefined, null, 7, {}, '', '\n'])('is null for %j', url => {
    expect(placeOf(url)).toBeNull()
  })

  test('has one of the words of GitHub as its kind, and no other text', () => {
    const sourceOf = (source: unknown) => describeFinding({ source }, { token, keyPrefix: 'wsk_' }).source
    expect([sourceOf('gist_content'), sourceOf('<b>'), sourceOf('x'.repeat(41)), sourceOf(1)]).toEqual([
      'gist_content',
      null,
      null,
      null,
    ])
  })
})
