import type { CircuitState } from '../domain/circuit.ts'
import { type Metrics, UPSTREAM_ERROR_KINDS } from '../observability/metrics.ts'
import type { UpstreamFailureKind } from './upstream-failure.ts'

/** The one upstream there is. */
const UPSTREAM = 'default'

export interface PoolFigures {
  readonly open: number
  readonly free: number
  /** Connections that are being made. */
  readonly pending: number
  readonly queued: number
  readonly circuit: CircuitState
}

const CIRCUIT_STATES: readonly CircuitState[] = ['closed', 'open', 'half_open']

/** Counts what happens with the upstream; the children of labels are resolved once, not per request. */
export class UpstreamMeter {
  readonly #metrics: Metrics
  readonly #timeToHeaders: { observe(seconds: number): void }
  readonly #answersByCode = new Map<number, { inc(): void }>()

  constructor(metrics: Metrics, figures: () => PoolFigures) {
    this.#metrics = metrics
    this.#timeToHeaders = metrics.upstreamTimeToHeaders.labels(UPSTREAM)
    for (const kind of UPSTREAM_ERROR_KINDS) metrics.upstreamErrors.inc({ upstream: UPSTREAM, kind }, 0)
    for (const outcome of ['success', 'failure']) {
      metrics.upstreamRetries.inc({ upstream: UPSTREAM, outcome }, 0)
    }
    collectPool(metrics, figures)
  }

  answered(statusCode: number, afterMs: number, retried: boolean): void {
    this.#answers(statusCode).inc()
    this.#timeToHeaders.observe(afterMs / 1000)
    if (retried) this.#metrics.upstreamRetries.inc({ upstream: UPSTREAM, outcome: 'success' })
  }

  /** @param retriedInVain whether the failure was that of the second attempt, before any answer */
  failed(kind: UpstreamFailureKind, retriedInVain: boolean): void {
    this.#metrics.upstreamErrors.inc({ upstream: UPSTREAM, kind })
    if (retriedInVain) this.#metrics.upstreamRetries.inc({ upstream: UPSTREAM, outcome: 'failure' })
  }

  #answers(statusCode: number): { inc(): void } {
    const known = this.#answersByCode.get(statusCode)
    if (known !== undefined) return known
    const child = this.#metrics.upstreamRequests.labels(UPSTREAM, String(statusCode))
    this.#answersByCode.set(statusCode, child)
    return child
  }
}

/** Asked when somebody looks, not kept up to date with every request. (The type of a gauge lacks its `collect`.) */
function collectPool(metrics: Metrics, figures: () => PoolFigures): void {
  const { upstreamConnections, upstreamQueued, upstreamCircuit } = metrics
  const collectConnections = () => {
    const { open, free, pending } = figures()
    for (const [state, count] of Object.entries({ open, free, pending })) {
      upstreamConnections.set({ upstream: UPSTREAM, state }, count)
    }
  }
  Object.assign(upstreamConnections, { collect: collectConnections })
  Object.assign(upstreamCircuit, {
    collect: () => {
      const { circuit } = figures()
      for (const state of CIRCUIT_STATES) {
        upstreamCircuit.set({ upstream: UPSTREAM, state }, state === circuit ? 1 : 0)
      }
    },
  })
  Object.assign(upstreamQueued, {
    collect: () => upstreamQueued.set({ upstream: UPSTREAM }, figures().queued),
  })
}
