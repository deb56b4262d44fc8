import type { Config } from '../config/schema.ts'
import type { HmacKey } from '../domain/hmac-key.ts'
import { importSigningSecret } from '../domain/secret.ts'
import { deriveRecordKey } from '../domain/wire.ts'
import type { RecordKeys } from './registry/projection.ts'

/** What the console signs with and is asked for, as it is now. */
export interface ConsoleSecrets {
  readonly signingKey: HmacKey
  readonly recordKeys: RecordKeys
  readonly adminToken: string | undefined
  readonly originToken: string | undefined
}

/** The first secret signs, all verify. */
export function importSecrets({ keys, console, origin }: Config): ConsoleSecrets {
  const [first, ...others] = keys.signingSecrets.map(secret => Buffer.from(secret, 'base64'))
  if (first === undefined) {
    throw new Error('keys.signingSecrets: the console needs at least one, to sign the keys that it issues')
  }
  return {
    signingKey: importSigningSecret(first),
    recordKeys: [deriveRecordKey(first), ...others.map(deriveRecordKey)],
    adminToken: console.adminToken,
    originToken: origin.token,
  }
}
