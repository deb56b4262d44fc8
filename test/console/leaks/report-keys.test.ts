import { generateKeyPairSync } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { neverReloads } from '../../../src/config/reloadable.ts'
import { isSignedBy, readSignature } from '../../../src/console/leaks/api.ts'
import { createCachedKeys, createKeyFetcher } from '../../../src/console/leaks/public-keys.ts'
import { NO_PROXIES } from '../../../src/domain/proxy.ts'
import { parsePublicKeys } from '../../../src/domain/report-keys.ts'
import { GithubDouble } from '../../support/github-double.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const MINUTE_MS = 60_000

/** As long as no test waits for it. */
const LONG_MS = 60_000
/** Of a list that never comes. */
const SHORT_MS = 100

async function startReading(timeoutMs = LONG_MS) {
  const github = await GithubDouble.start()
  const clock = new ManualClock()
  const settings = { keysUrl: github.keysUrl, timeoutMs }
  const { fetchKeys, stop } = createKeyFetcher(settings, neverReloads, NO_PROXIES)
  onTestFinished(stop)
  const problems: string[] = []
  const failures = { failed: ({ message }: Error) => void problems.push(message), succeeded: () => {} }
  const keys = createCachedKeys({ fetchKeys, clock, failures })
  const finds = async (index: number) => (await keys.find(`key-${index}`)) !== null
  return { github, clock, keys, finds, problems }
}

describe('the public keys of GitHub', () => {
  test('are read once for many reports, also for those that arrive at the same time', async () => {
    const { github, finds } = await startReading()
    expect(await Promise.all([finds(0), finds(0), finds(0)])).toEqual([true, true, true])
    expect(await finds(0)).toBe(true)
    expect(github.requests).toEqual([null])
  })

  test('are read again after an hour, with the ETag: an unchanged list is not sent again', async () => {
    const { github, clock, finds } = await startReading()
    await finds(0)
    clock.advance(59 * MINUTE_MS)
    await finds(0)
    expect(github.requests).toHaveLength(1)
    clock.advance(MINUTE_MS)
    expect(await finds(0)).toBe(true)
    expect(github.requests).toEqual([null, expect.stringContaining('key-0')])
  })

  test('are read again for an unknown identifier, but at most every five minutes', async () => {
    const { github, clock, finds } = await startReading()
    await finds(0)
    for (let count = 0; count < 10; count++) expect(await finds(7)).toBe(false)
    expect(github.requests).toHaveLength(1)
    github.rotate()
    clock.advance(5 * MINUTE_MS)
    expect([await finds(1), await finds(0)]).toEqual([true, true])
    expect(github.requests).toHaveLength(2)
  })

  test('say which key is current; an earlier one verifies until GitHub withdraws it', async () => {
    const { github, clock, keys } = await startReading()
    github.rotate()
    expect([await keys.find('key-0'), await keys.find('key-1')]).toMatchObject([
      { isCurrent: false },
      { isCurrent: true },
    ])
    github.keys.shift()
    clock.advance(60 * MINUTE_MS)
    expect(await keys.find('key-0')).toBeNull()
  })

  test('stay in use for a day while GitHub does not respond; then it is not known whether a signature is good', async () => {
    const { github, clock, finds, problems } = await startReading()
    await finds(0)
    github.answer = response => response.writeHead(502).end()
    clock.advance(60 * MINUTE_MS)
    expect(await finds(0)).toBe(true)
    expect(problems).toEqual(['leaks.github.keysUrl: response status 502'])
    // Which other keys GitHub has is unknown, which is no refusal.
    await expect(finds(1)).rejects.toThrow('response status 502')
    clock.advance(23 * 60 * MINUTE_MS)
    await expect(finds(0)).rejects.toThrow('response status 502')
    github.answer = (response, etag) => github.publish(response, etag)
    clock.advance(5 * MINUTE_MS)
    expect(await finds(0)).toBe(true)
  })

  test.each<[string, GithubDouble['answer'], string, number?]>([
    ['is not JSON', response => response.writeHead(200).end('<html>'), 'is not JSON'],
    ['has no keys', response => response.writeHead(200).end('{}'), 'has no public_keys'],
    ['is too large', response => response.writeHead(200).end(' '.repeat(300_000)), 'exceeded'],
    [
      'is a redirect',
      response => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
      'status 302',
    ],
    ['says "not changed" unasked', response => response.writeHead(304).end(), 'status 304'],
    ['does not come', () => {}, 'aborted', SHORT_MS],
    ['does not end', response => void response.writeHead(200).write('{'), 'aborted', SHORT_MS],
  ])('a list that %s is no list, and the reason is logged', async (_, answer, reason, timeoutMs) => {
    const { github, finds, problems } = await startReading(timeoutMs)
    github.answer = answer
    await expect(finds(0)).rejects.toThrow()
    expect(problems.join().toLowerCase()).toContain(reason.toLowerCase())
  })

  test('a list that is "not changed" since none is none', async () => {
    const clock = new ManualClock()
    const failed: string[] = []
    const failures = { succeeded: () => {}, failed: ({ message }: Error) => void failed.push(message) }
    const keys = createCachedKeys({ fetchKeys: async () => null, clock, failures })
    await expect(keys.find('a')).rejects.toThrow('no list of public keys was sent')
    expect(failed).toEqual(['no list of public keys was sent'])
  })

  test('a broken list does not replace a good one', async () => {
    const { github, clock, finds } = await startReading()
    await finds(0)
    github.answer = response => response.writeHead(200).end('{"public_keys":[]}')
    clock.advance(60 * MINUTE_MS)
    expect(await finds(0)).toBe(true)
  })
})

test.each([
  ['QUJD', 'ABC'],
  ['QUI=', 'AB'],
  ['QQ==', 'A'],
  ['A'.repeat(100), '\0'.repeat(75)],
  ['A'.repeat(101), null],
  ['QUJD, QUJD', null],
  ['!QUJD', null],
  ['QUJD!', null],
  ['QQ===', null],
  ['', null],
])('the signature %s is read as %j', (signature, bytes) => {
  const identifier = 'a'.repeat(64)
  const headers = {
    'github-public-key-identifier': identifier,
    'github-public-key-signature': signature,
  }
  const expected = bytes === null ? null : { identifier, signature: Buffer.from(bytes) }
  expect(readSignature(headers)).toEqual(expected)
})

test('keys of another kind, and entries without name or key, are left out', () => {
  const pem = (key: { export(options: object): unknown }) =>
    String(key.export({ type: 'spki', format: 'pem' }))
  const p256 = pem(generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).publicKey)
  const entries = [
    { key_identifier: 'p384', key: pem(generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).publicKey) },
    { key_identifier: 'ed25519', key: pem(generateKeyPairSync('ed25519').publicKey) },
    { key_identifier: 'broken', key: 'x' },
    { key_identifier: 'a b', key: p256 },
    { key: p256 },
    null,
    { key_identifier: 'good', key: p256, is_current: true },
  ]
  expect([...parsePublicKeys(JSON.stringify({ public_keys: entries })).keys()]).toEqual(['good'])
})

test("the signature of GitHub's published example is good, and of no other body", () => {
  const pem = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEsz9ugWDj5jK5ELBK42ynytbo38gP
HzZFI03Exwz8Lh/tCfL3YxwMdLjB+bMznsanlhK0RwcGP3IDb34kQDIo3Q==
-----END PUBLIC KEY-----`
  const signed = readSignature({
    'github-public-key-identifier': 'f9525bf080f75b3506ca1ead061add62b8633a346606dc5fe544e29231c6ee0d',
    'github-public-key-signature':
      'MEUCIFLZzeK++IhS+y276SRk2Pe5LfDrfvTXu6iwKKcFGCrvAiEAhHN2kDOhy2I6eGkOFmxNkOJ+L2y8oQ9A2T9GGJo6WJY=',
  })
  const list = { public_keys: [{ key_identifier: signed?.identifier, key: pem, is_current: true }] }
  const key = parsePublicKeys(JSON.stringify(list)).get(signed?.identifier ?? '')?.key
  if (signed === null || key === undefined) throw new Error('The example cannot be read')
  const body = '[{"token":"some_token","type":"some_type","url":"some_url","source":"some_source"}]'
  expect(isSignedBy(key, Buffer.from(body), signed.signature)).toBe(true)
  expect(isSignedBy(key, Buffer.from(`${body}\n`), signed.signature)).toBe(false)
})
