import type { KeyObject } from 'node:crypto'
import type { Config } from '../../config/schema/schema.ts'
import { deriveMessageKey } from '../../domain/invalidation-message.ts'
import { fingerprintSecret, importSigningSecret } from '../../domain/key/secret.ts'
import { deriveRecordKey } from '../../domain/wire.ts'

/** The first signs records, all verify them. */
export type RecordKeys = readonly [KeyObject, ...KeyObject[]]

/** The console's secrets in the form they are used. */
export interface ConsoleSecrets {
  readonly signingKey: KeyObject
  /** The signing key and earlier ones, which still verify. */
  readonly signingKeys: readonly KeyObject[]
  readonly recordKeys: RecordKeys
  /** One for each secret, in their order. */
  readonly fingerprints: readonly string[]
  /** Signs messages to gateways. */
  readonly messageKey: KeyObject
  /** All are accepted; empty: none is. */
  readonly adminTokens: readonly string[]
  readonly keyServiceTokens: readonly string[]
}

/** The first secret signs, all verify. */
export function importSecrets({ keys, console, keyService }: Config): ConsoleSecrets {
  const [first, ...others] = keys.signingSecrets.map(secret => Buffer.from(secret, 'base64'))
  if (first === undefined) {
    throw new Error('keys.signingSecrets: the console needs at least one to sign the keys it issues')
  }
  return {
    signingKey: importSigningSecret(first),
    signingKeys: [first, ...others].map(importSigningSecret),
    recordKeys: [deriveRecordKey(first), ...others.map(deriveRecordKey)],
    fingerprints: [first, ...others].map(fingerprintSecret),
    messageKey: deriveMessageKey(first),
    adminTokens: console.adminToken ?? [],
    keyServiceTokens: keyService.token ?? [],
  }
}
