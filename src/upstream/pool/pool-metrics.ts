import type { CircuitState } from '../../domain/circuit.ts'
import type { CounterHandle, HistogramHandle } from '../../observability/metrics/metrics.ts'
import { codeLabel, type Metrics, UPSTREAM_ERROR_KINDS } from '../../observability/metrics/metrics.ts'
import type { UpstreamFailureKind } from '../failure.ts'

/** The one upstream there is. */
const UPSTREAM = 'default'

/** What a rate is asked of before the first of its kind has come. */
const USUAL_CODES = [200, 404, 500, 503]

export interface PoolFigures {
  readonly open: number
  readonly free: number
  /** Connections that are being made. */
  readonly pending: number
  readonly queued: number
  readonly circuit: CircuitState
  readonly addresses: { readonly usable: number; readonly avoided: number }
}

const CIRCUIT_STATES: readonly CircuitState[] = ['closed', 'open', 'half_open']

/** Counts what happens with the upstream; the children of labels are resolved once, not per request. */
export class UpstreamMeter {
  readonly #metrics: Metrics
  readonly #timeToHeaders: HistogramHandle
  readonly #answersByCode = new Map<number, CounterHandle>()

  constructor(metrics: Metrics, figures: () => PoolFigures) {
    this.#metrics = metrics
    this.#timeToHeaders = metrics.upstreamTimeToHeaders.handle({ upstream: UPSTREAM })
    for (const code of USUAL_CODES) this.#answers(code)
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

  #answers(statusCode: number): CounterHandle {
    const known = this.#answersByCode.get(statusCode)
    if (known !== undefined) return known
    const child = this.#metrics.upstreamRequests.handle({ upstream: UPSTREAM, code: codeLabel(statusCode) })
    this.#answersByCode.set(statusCode, child)
    return child
  }
}

function collectPool(metrics: Metrics, figures: () => PoolFigures): void {
  metrics.upstreamConnections.onCollect(connections => {
    const { open, free, pending } = figures()
    for (const [state, count] of Object.entries({ open, free, pending })) {
      connections.set({ upstream: UPSTREAM, state }, count)
    }
  })
  metrics.upstreamCircuit.onCollect(circuits => {
    const { circuit } = figures()
    for (const state of CIRCUIT_STATES) circuits.set({ upstream: UPSTREAM, state }, state === circuit ? 1 : 0)
  })
  metrics.upstreamAddresses.onCollect(gauge => {
    for (const [state, count] of Object.entries(figures().addresses)) {
      gauge.set({ upstream: UPSTREAM, state }, count)
    }
  })
  metrics.upstreamQueued.onCollect(queued => queued.set({ upstream: UPSTREAM }, figures().queued))
}
