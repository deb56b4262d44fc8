import { type Follow, following } from '../config/reloadable.ts'
import type { Config } from '../config/schema.ts'
import type { Clock } from '../domain/clock.ts'
import { importSigningSecret, type KeyFormat } from '../domain/secret.ts'
import type { KeyStore } from '../keys/key-store.ts'

/** By what a key is told from junk before anybody is asked for it. */
export interface KeyCheck {
  readonly format: KeyFormat
  /** Whether the key of this digest had its MAC checked since the format is what it is. */
  readonly isProven: (digest: string) => boolean
}

/**
 * As settings say it now. No key is looked up whose MAC was not right: so one of which a record was asked for since the
 * signing secrets last changed needs no second proof. A secret that is taken away is felt at once.
 */
export function createKeyCheck(
  config: Config,
  deps: { readonly follow: Follow<Config>; readonly clock: Clock; readonly keys: KeyStore },
): KeyCheck {
  const format = following(config, deps.follow, ({ keys }) => keyFormatOf(keys))
  let sinceMs = deps.clock.monotonicMs()
  // When it is put to use, and not when it is made: until then keys are proven by the one before it.
  deps.follow(() => () => {
    sinceMs = deps.clock.monotonicMs()
  })
  return {
    get format() {
      return format.value
    },
    isProven: digest => deps.keys.holdsSince(digest, sinceMs),
  }
}

function keyFormatOf(keys: Config['keys']): KeyFormat {
  if (keys.format === 'opaque') return { kind: 'opaque' }
  const signingKeys = keys.signingSecrets.map(secret => importSigningSecret(Buffer.from(secret, 'base64')))
  return { kind: 'signed', prefix: keys.prefix, signingKeys }
}
