import { type OnReload, reloadable } from '../config/reloadable.ts'
import type { Config } from '../config/schema/schema.ts'
import {
  digestOf,
  hasKeyForm,
  hasKeyMac,
  importSigningSecret,
  isUnsignedKey,
  type KeyFormat,
  keyPrefixOf,
} from '../domain/key/secret.ts'
import type { Credential, CredentialScheme } from './credential.ts'

const SCHEME = 'bearer '

/** API keys as bearer tokens. If a reload removes a signing secret, its keys become invalid at once. */
export function createBearerKeyScheme(config: Config, onReload: OnReload<Config>): CredentialScheme {
  const format = reloadable(config, onReload, ({ keys }) => keyFormatOf(keys))
  return {
    read: ({ authorization }) => readBearerKey(authorization, format.value),
    get prefix() {
      return keyPrefixOf(format.value)
    },
  }
}

/** @param authorization all `Authorization` fields of the request (RFC 6750, section 2.1) */
export function readBearerKey(authorization: readonly string[], format: KeyFormat): Credential {
  const [field] = authorization
  const key = field === undefined || authorization.length > 1 ? '' : tokenOf(field)
  if (key === '') return { ok: false, reason: 'key_missing' }
  const isAuthentic = hasKeyForm(key, format) && hasKeyMac(key, format)
  if (!isAuthentic) return { ok: false, reason: 'key_malformed' }
  return { ok: true, digest: digestOf(key), isUnsigned: isUnsignedKey(key, format) }
}

/** Reads scheme, spaces, token (RFC 6750, section 2.1). @returns '' for any other form */
function tokenOf(field: string): string {
  if (field.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return ''
  let at = SCHEME.length
  while (field[at] === ' ') at++
  return field.slice(at)
}

function keyFormatOf(keys: Config['keys']): KeyFormat {
  if (keys.format === 'opaque') return { kind: 'opaque' }
  const signingKeys = keys.signingSecrets.map(secret => importSigningSecret(Buffer.from(secret, 'base64')))
  return { kind: keys.format, prefix: keys.prefix, signingKeys }
}
