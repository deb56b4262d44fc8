import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { calculateJwkThumbprint } from 'jose'
import { expect, test } from 'vitest'
import { parseAssertionKey } from '../../src/domain/pem.ts'
import { assertionKeyPem } from '../support/assertion-keys.ts'

/** RFC 8037, appendices A.1 to A.3. */
const EXAMPLE = {
  kty: 'OKP',
  crv: 'Ed25519',
  d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
  x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
}
const EXAMPLE_THUMBPRINT = 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k'

function parsed(pem: string) {
  const key = parseAssertionKey(pem)
  if (typeof key === 'string') throw new Error(key)
  return key
}

test('the key id is the thumbprint of RFC 7638, and the public key holds no private part', () => {
  const pem = createPrivateKey({ key: EXAMPLE, format: 'jwk' }).export({ type: 'pkcs8', format: 'pem' })
  expect(parsed(pem.toString()).publicKey).toEqual({
    kty: 'OKP',
    crv: 'Ed25519',
    x: EXAMPLE.x,
    kid: EXAMPLE_THUMBPRINT,
    alg: 'EdDSA',
    use: 'sig',
  })
})

test('jose computes the same key id for any key', async () => {
  for (let count = 0; count < 20; count++) {
    const { publicKey } = parsed(assertionKeyPem())
    expect(publicKey.kid).toBe(await calculateJwkThumbprint({ ...publicKey }))
  }
})

const pemOf = (type: 'ed448' | 'x25519') =>
  generateKeyPairSync(type as 'ed448')
    .privateKey.export({ type: 'pkcs8', format: 'pem' })
    .toString()
const publicPem = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' }).toString()

test.each([
  ['a text', 'not-a-key', 'no private key'],
  ['nothing', '', 'no private key'],
  ['a public key', publicPem, 'no private key'],
  ['a key that is cut off', assertionKeyPem().slice(0, 60), 'no private key'],
  ['an Ed448 key', pemOf('ed448'), 'ed448'],
  ['an X25519 key', pemOf('x25519'), 'x25519'],
])('%s is rejected with how to make a key, and is not repeated', (_, pem, problem) => {
  const found = parseAssertionKey(pem)
  expect(found).toContain(problem)
  expect(found).toContain('openssl genpkey -algorithm ed25519')
  if (pem !== '') expect(found).not.toContain(pem)
})
