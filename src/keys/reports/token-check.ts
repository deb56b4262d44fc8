import type { Log } from '../../observability/failure-log.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'

/** unknown: the key service has not answered yet. */
export type TokenState = 'accepted' | 'rejected' | 'unknown'

const SETTING = 'keyService.token'
const ADVICE =
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
      this.#log.error({ setting: SETTING, advice: ADVICE }, 'key service rejects the token')
    } else if (this.#state === 'rejected') {
      this.#log.info({ setting: SETTING }, 'key service accepts the token again')
    }
    this.#state = found
    this.#metrics.keyServiceTokenRejected.set(found === 'rejected' ? 1 : 0)
  }
}
