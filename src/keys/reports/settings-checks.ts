import { type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { fingerprintSecret } from '../../domain/key/secret.ts'
import { DEFAULT_REGION } from '../../domain/region.ts'
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
    onReload: OnReload<Config['keys']>,
  ) {
    this.#own = reloadable(keys, onReload, ({ signingSecrets }) =>
      signingSecrets.map(secret => fingerprintSecret(Buffer.from(secret, 'base64'))),
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

/** unknown: the key service has not answered yet. */
type TokenState = 'accepted' | 'rejected' | 'unknown'

const TOKEN_SETTING = 'keyService.token'
const TOKEN_ADVICE =
  'set it to the token of the key service; this gateway can look up no key there, and is not ready before it can, if it never could'

/** Whether the key service accepts the token of this gateway, from the status of each response. */
export class TokenCheck {
  readonly #log: Log
  readonly #metrics: Pick<Metrics, 'keyServiceTokenRejected'>
  #state: TokenState = 'unknown'

  constructor(parts: { readonly log: Log; readonly metrics: Pick<Metrics, 'keyServiceTokenRejected'> }) {
    this.#log = parts.log
    this.#metrics = parts.metrics
  }

  get state(): TokenState {
    return this.#state
  }

  observe(status: number): void {
    const found = status === 401 ? 'rejected' : 'accepted'
    // A failing key service, or what stands before it, says nothing of the token.
    if (found === this.#state || status >= 500) return
    if (found === 'rejected') {
      this.#log.error({ setting: TOKEN_SETTING, advice: TOKEN_ADVICE }, 'key service rejects the token')
    } else if (this.#state === 'rejected') {
      this.#log.info({ setting: TOKEN_SETTING }, 'key service accepts the token again')
    }
    this.#state = found
    this.#metrics.keyServiceTokenRejected.set(found === 'rejected' ? 1 : 0)
  }
}

const REGION_ADVICE =
  'set region to one of the console’s regions; it announces changes to none of this name, so each key is verified at the console, and this gateway is not ready'

/** Whether the console knows the region of this gateway. One that it does not know receives no revocation over Redis. */
export class RegionCheck {
  readonly #region: string
  readonly #log: Log
  #isUnknown = false

  constructor(region: string | undefined, log: Log) {
    this.#region = region ?? DEFAULT_REGION
    this.#log = log
  }

  get isUnknown(): boolean {
    return this.#isUnknown
  }

  /** @param regions of the console; none if it does not say, or has no Redis */
  observe(regions: readonly string[]): void {
    const isUnknown = regions.length > 0 && !regions.includes(this.#region)
    if (isUnknown === this.#isUnknown) return
    this.#isUnknown = isUnknown
    const fields = { setting: 'region', region: this.#region, regions }
    if (isUnknown) this.#log.error({ ...fields, advice: REGION_ADVICE }, 'the console has no such region')
    else this.#log.info(fields, 'the console has this region again')
  }
}

/**
 * Whether a gateway is misconfigured: its settings contradict those of the key service, and never agreed. Where the key service
 * has changed instead, a gateway that serves keys from memory is better than none.
 */
export class SettingsAgreement {
  readonly #contradicts: () => boolean
  #hasAgreed = false

  constructor(contradicts: () => boolean) {
    this.#contradicts = contradicts
  }

  get isMisconfigured(): boolean {
    return !this.#hasAgreed && this.#contradicts()
  }

  /** Call after an answer of the key service, or when the first one is not to be waited for any longer. */
  note(): void {
    this.#hasAgreed ||= !this.#contradicts()
  }
}
