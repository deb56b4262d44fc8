import { type OnReload, reloadable } from '../config/reloadable.ts'
import type { Config } from '../config/schema.ts'
import { importSigningSecret, type KeyFormat } from '../domain/secret.ts'

/** What tells a key from junk before any store is asked: it follows the settings while the process runs. */
export interface KeyCheck {
  readonly format: KeyFormat
}

export function createKeyCheck(config: Config, onReload: OnReload<Config>): KeyCheck {
  const format = reloadable(config, onReload, ({ keys }) => keyFormatOf(keys))
  return {
    get format() {
      return format.value
    },
  }
}

function keyFormatOf(keys: Config['keys']): KeyFormat {
  if (keys.format === 'opaque') return { kind: 'opaque' }
  const signingKeys = keys.signingSecrets.map(secret => importSigningSecret(Buffer.from(secret, 'base64')))
  return { kind: 'signed', prefix: keys.prefix, signingKeys }
}
