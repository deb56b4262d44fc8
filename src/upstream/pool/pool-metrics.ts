import type { CircuitState } from '../../domain/circuit.ts'
import {
  type CounterHandle,
  codeLabel,
  type HistogramHandle,
  type Metrics,
  UPSTREAM_ERROR_KINDS,
} from '../../observability/metrics/metrics.ts'
import type { UpstreamFailureKind } from './failure.ts'

/** Label of the only upstream. */
const UPSTREAM = 'default'

/** These series exist from the start, so that `rate()` works before the first response. */
const USUAL_CODES = [200, 404, 500, 503]

interface PoolStats {
  readonly open: number
  readonly free: number
  /** Connection attempts in progress. */
  readonly pending: number
  readonly queued: number
  readonly circuit: CircuitState
  readonly addresses: { readonly usable: number; readonly avoided: number }
}

const CIRCUIT_STATES: readonly CircuitState[] = ['closed', 'open', 'half_open']

/** Updates the metrics of the upstream. Metric handles are resolved once, not per request. */
export class PoolMetrics {
  readonly #metrics: Metrics
  readonly #timeToHeaders: HistogramHandle
  readonly #handlesByCode = new Map<number, CounterHandle>()

  constructor(metrics: Metrics, stats: () => PoolStats) {
    this.#metrics = metrics
    this.#timeToHeaders = metrics.upstreamTimeToHeaders.handle({ upstream: UPSTREAM })
    for (const code of USUAL_CODES) this.#handle(code)
    for (const kind of UPSTREAM_ERROR_KINDS) metrics.upstreamErrors.inc({ upstream: UPSTREAM, kind }, 0)
    for (const outcome of ['success', 'failure']) {
      metrics.upstreamRetries.inc({ upstream: UPSTREAM, outcome }, 0)
    }
    collectPool(metrics, stats)
  }

  headReceived(statusCode: number, afterMs: number, retried: boolean): void {
    this.#handle(statusCode).inc()
    this.#timeToHeaders.observe(afterMs / 1000)
    if (retried) this.#metrics.upstreamRetries.inc({ upstream: UPSTREAM, outcome: 'success' })
  }

  /** @param retryFailed whether this was the retry, and it failed before the head of a response */
  failed(kind: UpstreamFailureKind, retryFailed: boolean): void {
    this.#metrics.upstreamErrors.inc({ upstream: UPSTREAM, kind })
    if (retryFailed) this.#metrics.upstreamRetries.inc({ upstream: UPSTREAM, outcome: 'failure' })
  }

  #handle(statusCode: number): CounterHandle {
    const known = this.#handlesByCode.get(statusCode)
    if (known !== undefined) return known
    const handle = this.#metrics.upstreamRequests.handle({ upstream: UPSTREAM, code: codeLabel(statusCode) })
    this.#handlesByCode.set(statusCode, handle)
    return handle
  }
}

function collectPool(metrics: Metrics, stats: () => PoolStats): void {
  metrics.upstreamConnections.onCollect(connections => {
    const { open, free, pending } = stats()
    for (const [state, count] of Object.entries({ open, free, pending })) {
      connections.set({ upstream: UPSTREAM, state }, count)
    }
  })
  metrics.upstreamCircuit.onCollect(circuits => {
    const { circuit } = stats()
    for (const state of CIRCUIT_STATES) circuits.set({ upstream: UPSTREAM, state }, state === circuit ? 1 : 0)
  })
  metrics.upstreamAddresses.onCollect(gauge => {
    for (const [state, count] of Object.entries(stats().addresses)) {
      gauge.set({ upstream: UPSTREAM, state }, count)
    }
  })
  metrics.upstreamQueued.onCollect(queued => queued.set({ upstream: UPSTREAM }, stats().queued))
}
