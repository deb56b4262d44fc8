import { createPrivateKey, createPublicKey, hash, type KeyObject, X509Certificate } from 'node:crypto'
import { SettingError, StartError } from './errors.ts'

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** @throws if a block is no valid certificate */
export function certificatesIn(pem: string): X509Certificate[] {
  return (pem.match(CERTIFICATE) ?? []).map(text => new X509Certificate(text))
}

/**
 * Rejects a file without certificates, which OpenSSL accepts silently and then trusts no certificate.
 * @param setting the setting that names the file, for the message
 */
export function requireAuthorities(pem: string, setting: string): void {
  if (attempt(() => certificatesIn(pem)).length > 0) return
  throw new SettingError(`${setting}: the file contains no PEM certificate`)
}

/**
 * Rejects a certificate and a private key that do not match, such as while an operator has replaced only one of them.
 * @param setting the setting that names the certificate's file, for the message
 */
export function requirePair(certificate: string, key: string, setting: string): void {
  const [own] = attempt(() => certificatesIn(certificate))
  if (own === undefined) throw new SettingError(`${setting}: the file contains no PEM certificate`)
  const [privateKey] = attempt(() => [createPrivateKey(key)])
  if (privateKey === undefined) throw new SettingError(`${setting}: the key file contains no PEM private key`)
  // A restart cures it as soon as the other file is replaced, too.
  if (!own.checkPrivateKey(privateKey))
    throw new StartError(`${setting}: the private key does not match the certificate`)
}

/** OpenSSL's messages do not help an operator, and might repeat the input. */
function attempt<Item>(read: () => Item[]): Item[] {
  try {
    return read()
  } catch {
    return []
  }
}

const HOW_TO_MAKE_ASSERTION_KEY = 'Make one with `openssl genpkey -algorithm ed25519 -out FILE`'

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
  const [privateKey] = attempt(() => [createPrivateKey(pem)])
  if (privateKey === undefined) return `holds no private key in PEM. ${HOW_TO_MAKE_ASSERTION_KEY}`
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
