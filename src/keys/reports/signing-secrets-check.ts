import { neverReloads, type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { fingerprintOf } from '../../domain/key/secret.ts'
import type { Log } from '../../observability/failure-log.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'

/**
 * match: this gateway verifies the keys that the key service signs now. partial: only keys signed with an earlier secret.
 * mismatch: it rejects every key of this key service. unknown: the key service has not said. off: keys have no MAC.
 */
export type SecretsMatch = 'match' | 'partial' | 'mismatch' | 'unknown' | 'off'

/** @param theirs fingerprints of the key service's signing secrets; the first signs */
export function compareFingerprints(own: readonly string[], theirs: readonly string[]): SecretsMatch {
  const [signing] = theirs
  if (signing === undefined) return 'unknown'
  if (own.includes(signing)) return 'match'
  return theirs.some(fingerprint => own.includes(fingerprint)) ? 'partial' : 'mismatch'
}

/** Compares fingerprints of the signing secrets with the key service's: with other secrets, each of its keys is rejected. */
export class SigningSecretsCheck {
  readonly #own: { readonly value: readonly string[] }
  readonly #log: Log
  readonly #metrics: Metrics
  #state: SecretsMatch

  constructor(
    keys: Config['keys'],
    parts: { readonly log: Log; readonly metrics: Metrics },
    onReload: OnReload<Config['keys']> = neverReloads,
  ) {
    this.#own = reloadable(keys, onReload, ({ signingSecrets }) =>
      signingSecrets.map(secret => fingerprintOf(Buffer.from(secret, 'base64'))),
    )
    this.#log = parts.log
    this.#metrics = parts.metrics
    this.#state = keys.format === 'opaque' ? 'off' : 'unknown'
  }

  get state(): SecretsMatch {
    return this.#state
  }

  /** @param fingerprints of the key service's secrets; none change nothing */
  observe(fingerprints: readonly string[]): void {
    const found = compareFingerprints(this.#own.value, fingerprints)
    if (this.#state === 'off' || found === 'unknown' || found === this.#state) return
    const before = this.#state
    this.#state = found
    this.#metrics.signingSecretsMismatch.set(found === 'match' ? 0 : 1)
    const setting = 'keys.signingSecrets'
    if (found === 'mismatch') this.#log.error({ setting }, 'signing secrets differ, every key is rejected')
    else if (found === 'partial')
      this.#log.error({ setting }, 'signing secret missing, new keys are rejected')
    else if (before !== 'unknown') this.#log.info({ setting }, 'signing secrets match again')
  }
}
