import { generateKeyPairSync } from 'node:crypto'

/** A private key as `openssl genpkey -algorithm ed25519` writes it. */
export function assertionKeyPem(): string {
  const { privateKey } = generateKeyPairSync('ed25519')
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
}
