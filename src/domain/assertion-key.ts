import { createPrivateKey, createPublicKey, hash, type KeyObject } from 'node:crypto'

/** How an operator makes a file with one key. */
export const HOW_TO_MAKE_ASSERTION_KEY = 'Make one with `openssl genpkey -algorithm ed25519 -out FILE`'

/** A public key as verifiers read it (RFC 8037, section 2). */
export interface PublicAssertionKey {
  readonly kty: 'OKP'
  readonly crv: 'Ed25519'
  readonly x: string
  readonly kid: string
  readonly alg: 'EdDSA'
  readonly use: 'sig'
}

export interface AssertionKey {
  readonly privateKey: KeyObject
  readonly publicKey: PublicAssertionKey
}

/** @returns the key, or what is wrong with the text: completes "names a file that …", and never repeats the text */
export function parseAssertionKey(pem: string): AssertionKey | string {
  const privateKey = readPrivateKey(pem)
  if (privateKey === null) return `holds no private key in PEM. ${HOW_TO_MAKE_ASSERTION_KEY}`
  if (privateKey.asymmetricKeyType !== 'ed25519') {
    return `holds a key of another kind (${privateKey.asymmetricKeyType}), not Ed25519. ${HOW_TO_MAKE_ASSERTION_KEY}`
  }
  const { x } = createPublicKey(privateKey).export({ format: 'jwk' })
  if (x === undefined) throw new Error('An Ed25519 key was exported without its public part')
  const publicKey = {
    kty: 'OKP',
    crv: 'Ed25519',
    x,
    kid: computeThumbprint(x),
    alg: 'EdDSA',
    use: 'sig',
  } as const
  return { privateKey, publicKey }
}

/** RFC 7638, section 3: the required members in lexicographic order. */
function computeThumbprint(x: string): string {
  return hash('sha256', JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x }), 'base64url')
}

/** OpenSSL's messages do not help an operator, and might repeat the input. */
function readPrivateKey(pem: string): KeyObject | null {
  try {
    return createPrivateKey(pem)
  } catch {
    return null
  }
}
