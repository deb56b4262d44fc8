import { createPrivateKey, X509Certificate } from 'node:crypto'
import { StartError } from './start-error.ts'

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
  throw new StartError(`${setting}: the file contains no PEM certificate`)
}

/**
 * Rejects a certificate and a private key that do not match, such as while an operator has replaced only one of them.
 * @param setting the setting that names the certificate's file, for the message
 */
export function requirePair(certificate: string, key: string, setting: string): void {
  const [own] = attempt(() => certificatesIn(certificate))
  if (own === undefined) throw new StartError(`${setting}: the file contains no PEM certificate`)
  const [privateKey] = attempt(() => [createPrivateKey(key)])
  if (privateKey === undefined) throw new StartError(`${setting}: the key file contains no PEM private key`)
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
