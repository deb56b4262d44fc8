import type { Dispatcher } from 'undici'
import type { UpstreamClient } from '../../src/upstream/pool/connection.ts'
import { UpstreamExchange } from '../../src/upstream/pool/exchange.ts'
import type {
  BodySink,
  ExchangeHandler,
  ExchangeOwner,
  UpstreamHeaders,
} from '../../src/upstream/pool/exchange-parties.ts'
import type { UpstreamFailure } from '../../src/upstream/pool/failure.ts'

export type Stage = 'queued' | 'connecting' | 'waiting' | 'streaming' | 'discarding' | 'aborted' | 'ended'

interface Options {
  /** What the client says to each chunk. */
  readonly next?: 'continue' | 'pause' | 'discard'
  /** Whether the connection counts as stale if it is lost. */
  readonly untouched?: boolean
  /** Whether the parser has still not reported an abort when the test looks. */
  readonly lingers?: boolean
  /** Whether the client takes a body in pieces only. */
  readonly inPieces?: boolean
  readonly onHead?: (exchange: UpstreamExchange) => void
  readonly onWrite?: (exchange: UpstreamExchange) => void
  readonly onEnd?: () => void
}

/** One exchange whose pool, connection, parser and client the test plays. It records the calls that each receives. */
export class ScriptedExchange {
  nowMs = 0
  readonly seen: string[] = []
  readonly exchange: UpstreamExchange
  readonly client: UpstreamClient
  readonly controller: Dispatcher.DispatchController
  /** Null if the body is not needed. */
  #sink: BodySink | null

  constructor(options: Options = {}) {
    const { next = 'continue', untouched = false, lingers = false, inPieces = false } = options
    const record = (event: string) => void this.seen.push(event)
    const nameOf = (failure: UpstreamFailure | null) => failure?.kind ?? 'null'
    const connection = { carry: () => record('carry'), isUntouched: () => untouched }
    // The exchange uses nothing else of its client.
    this.client = { connection, send: () => {} } as unknown as UpstreamClient
    this.controller = {
      rawHeaders: [],
      rawTrailers: null,
      aborted: false,
      paused: false,
      reason: null,
      pause: () => record('pause'),
      resume: () => record('resume'),
      abort: reason => {
        record(`abort ${'kind' in reason ? String(reason.kind) : reason.message.split(' ')[0]}`)
        if (!lingers) this.exchange.onResponseError(this.controller, reason)
      },
    }
    this.#sink = {
      ...(inPieces ? {} : { writeAll: (body: Buffer) => record(`writeAll ${body}`) }),
      write: chunk => {
        record(`write ${chunk}`)
        options.onWrite?.(this.exchange)
        return next
      },
      end: () => {
        options.onEnd?.()
        record('end')
      },
      fail: failure => record(`fail ${nameOf(failure)}`),
    }
    const handler: ExchangeHandler = {
      onHead: () => {
        record('onHead')
        options.onHead?.(this.exchange)
        return this.#sink
      },
      onFailure: (failure, waitedMs) => record(`onFailure ${failure.kind} ${waitedMs}`),
    }
    const owner: ExchangeOwner<UpstreamExchange> = {
      limits: { headersTimeoutMs: 100, bodyIdleTimeoutMs: 100, totalTimeoutMs: 1000, clientStallMs: 60 },
      nowMs: () => this.nowMs,
      withdraw: () => record('withdraw'),
      resend: () => record('resend'),
      headReceived: () => record('head'),
      failed: (_exchange, failure) => record(`failed ${failure.kind}`),
      released: (_exchange, broken) => record(`released ${broken ? 'broken' : 'whole'}`),
    }
    this.exchange = new UpstreamExchange(owner, { workspaceId: 'ws_1', path: '/', headers: {} }, handler, 0)
  }

  /** Goes through the life of an exchange to this stage. */
  to(stage: Stage): this {
    if (stage === 'queued') return this
    this.exchange.sendOn(this.client)
    if (stage === 'aborted') this.exchange.abort()
    if (stage === 'connecting' || stage === 'aborted') return this
    this.exchange.onRequestStart(this.controller)
    if (stage === 'waiting') return this
    if (stage === 'discarding') this.#sink = null
    this.head(200, { 'transfer-encoding': 'chunked' })
    if (stage === 'ended') this.exchange.onResponseEnd()
    return this
  }

  head(statusCode: number, headers: UpstreamHeaders): void {
    this.exchange.onResponseStart(this.controller, statusCode, headers)
  }

  data(text: string): void {
    this.exchange.onResponseData(this.controller, Buffer.from(text))
  }

  /** @returns what was recorded while this ran */
  since(run: (one: this) => void): string[] {
    const before = this.seen.length
    run(this)
    return this.seen.slice(before)
  }
}
