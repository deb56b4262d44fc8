import { createPrivateKey, X509Certificate } from 'node:crypto'

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** @throws where one of them is none */
export function certificatesIn(pem: string): X509Certificate[] {
  return (pem.match(CERTIFICATE) ?? []).map(text => new X509Certificate(text))
}

/**
 * Rejects a file without certificates, which OpenSSL accepts silently and then trusts no certificate.
 * @param setting the setting that names the file, for the message
 */
export function requireAuthorities(pem: string, setting: string): void {
  if (attempt(() => certificatesIn(pem)).length > 0) return
  throw new Error(`${setting}: the file holds no certificate in PEM`)
}

/** Refuses a certificate and a key of which one was replaced already and the other not yet. */
export function requirePair(certificate: string, key: string, setting: string): void {
  const [own] = attempt(() => certificatesIn(certificate))
  if (own === undefined) throw new Error(`${setting}: the file holds no certificate in PEM`)
  const [privateKey] = attempt(() => [createPrivateKey(key)])
  if (privateKey === undefined) throw new Error(`${setting}: the file of the key holds no private key in PEM`)
  if (!own.checkPrivateKey(privateKey)) throw new Error(`${setting}: certificate and key are not of one pair`)
}

/** OpenSSL's own messages do not help an operator, and might repeat the input. */
function attempt<Item>(read: () => Item[]): Item[] {
  try {
    return read()
  } catch {
    return []
  }
}
