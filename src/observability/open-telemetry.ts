import {
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { ExportResultCode, parseTraceParent } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { withinDeadline } from '../domain/clock.ts'
import type { TierName } from '../domain/key/key-record.ts'
import type { ProxySettings } from '../domain/proxy.ts'
import { nodeAgentFor } from '../outgoing/node-agent.ts'
import type { FailureLog } from './failure-log.ts'
import type { RequestTrace, TracedRequest, Tracing, TrustsParent } from './request-observation.ts'

const EXPORT_TIMEOUT_MS = 5_000
const STOP_TIMEOUT_MS = 3_000

interface OpenTelemetrySettings {
  readonly endpoint: string
  readonly sampleRatio: number
  readonly version: string
  readonly trustsParent: TrustsParent
  readonly proxies: ProxySettings
  readonly failures: Pick<FailureLog, 'failed' | 'succeeded'>
  /** Returns 0 to 1: decides whether a trace with an untrusted parent is sampled. */
  readonly random?: () => number
}

/** Creates spans with the OpenTelemetry SDK, without automatic instrumentation, which would patch modules. */
export class OpenTelemetryTracing implements Tracing {
  readonly #provider: TracerProvider
  readonly #tracer: Tracer
  readonly #sampleRatio: number
  readonly #trustsParent: TrustsParent
  readonly #random: () => number

  constructor(settings: OpenTelemetrySettings) {
    this.#sampleRatio = settings.sampleRatio
    this.#trustsParent = settings.trustsParent
    this.#random = settings.random ?? Math.random
    const url = tracesUrl(settings.endpoint)
    const { proxies } = settings
    const exporter = reporting(
      new OTLPTraceExporter({
        url,
        timeoutMillis: EXPORT_TIMEOUT_MS,
        httpAgentOptions: () => nodeAgentFor(new URL(url), { proxies, timeoutMs: EXPORT_TIMEOUT_MS }),
      }),
      settings.failures,
    )
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({ 'service.name': 'postern', 'service.version': settings.version }),
      sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(settings.sampleRatio) }),
      spanProcessors: [new BatchSpanProcessor({ exporter, exportTimeoutMillis: EXPORT_TIMEOUT_MS })],
    })
    this.#tracer = this.#provider.getTracer('postern')
  }

  begin(request: TracedRequest): RequestTrace {
    return new OpenTelemetryRequest(this.#tracer, this.#readContext(request))
  }

  /**
   * The sampler follows the parent's sampled flag, and otherwise decides by trace id. An untrusted client chooses both, so
   * its trace continues with a random flag.
   */
  #readContext(request: TracedRequest): Context {
    const { traceparent } = request.headers
    const parent = typeof traceparent === 'string' ? parseTraceParent(traceparent) : null
    if (parent === null) return ROOT_CONTEXT
    const traceFlags = this.#trustsParent(request) ? parent.traceFlags : this.#randomFlags()
    return trace.setSpanContext(ROOT_CONTEXT, { ...parent, traceFlags, isRemote: true })
  }

  #randomFlags(): TraceFlags {
    return this.#random() < this.#sampleRatio ? TraceFlags.SAMPLED : TraceFlags.NONE
  }

  async stop(): Promise<void> {
    // Spans that the collector does not accept are lost; that must not fail the shutdown.
    const sent = this.#provider.shutdown().catch(() => {})
    await withinDeadline(sent, STOP_TIMEOUT_MS, () => {})
  }
}

class OpenTelemetryRequest implements RequestTrace {
  readonly #tracer: Tracer
  readonly #server: Span
  readonly #context: Context
  #upstream: Span | null = null

  constructor(tracer: Tracer, parent: Context) {
    this.#tracer = tracer
    this.#server = tracer.startSpan('request', { kind: SpanKind.SERVER }, parent)
    this.#context = trace.setSpan(parent, this.#server)
  }

  get traceId(): string {
    return this.#server.spanContext().traceId
  }

  get spanId(): string {
    return this.#server.spanContext().spanId
  }

  get recorded(): boolean {
    return (this.#server.spanContext().traceFlags & TraceFlags.SAMPLED) !== 0
  }

  lookedUp(tier: TierName | null, startedAtMs: number): void {
    const startTime = performance.timeOrigin + startedAtMs
    const attributes = { 'postern.key.tier': tier ?? 'none' }
    this.#tracer.startSpan('key lookup', { startTime, attributes }, this.#context).end()
  }

  forwarding(): string {
    this.#upstream = this.#tracer.startSpan('upstream', { kind: SpanKind.CLIENT }, this.#context)
    const { traceId, spanId, traceFlags } = this.#upstream.spanContext()
    return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
  }

  forwarded(status: number, fault: string | null): void {
    if (status !== 0) this.#upstream?.setAttribute('http.response.status_code', status)
    if (fault !== null) this.#upstream?.setStatus({ code: SpanStatusCode.ERROR, message: fault })
  }

  end({ route, method, status, aborted, reason }: Parameters<RequestTrace['end']>[0]): void {
    this.#server.updateName(`${method} ${route}`)
    this.#server.setAttributes({
      'http.request.method': method,
      'http.route': route,
      ...(aborted ? { 'postern.aborted': true } : { 'http.response.status_code': status }),
      ...(reason === null ? {} : { 'postern.reason': reason }),
    })
    if (!aborted && status >= 500) this.#server.setStatus({ code: SpanStatusCode.ERROR })
    this.#upstream?.end()
    this.#server.end()
  }
}

/** The SDK would drop spans that the collector does not accept without a word. */
function reporting(exporter: SpanExporter, failures: OpenTelemetrySettings['failures']): SpanExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, result => {
        if (result.code === ExportResultCode.SUCCESS) failures.succeeded()
        else failures.failed(result.error ?? new Error('The collector accepted no spans'))
        done(result)
      }),
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  }
}

function tracesUrl(endpoint: string): string {
  const url = new URL(endpoint)
  return url.pathname === '/' ? new URL('/v1/traces', url).href : url.href
}
