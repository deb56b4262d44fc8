import type { buildConnector } from 'undici'
import { type Follow, following, unchanging } from '../../config/reloadable.ts'
import { Circuit } from '../../domain/circuit.ts'
import type { Clock } from '../../domain/clock.ts'
import type { Metrics } from '../../observability/metrics.ts'
import { type Log, TroubleLog } from '../../observability/trouble-log.ts'
import { tellsOfAbsence, UpstreamFailure } from '../failure.ts'
import { UpstreamClients } from './clients.ts'
import { buildUpstreamConnector, UpstreamClient, type UpstreamSettings } from './connection.ts'
import type { ConnectDeps } from './connector.ts'
import { type Bounded, DeadlineClock, NOWHERE } from './deadline-sweeper.ts'
import type { DeadlineLimits } from './deadlines.ts'
import { UpstreamExchange } from './exchange.ts'
import type { ExchangeOwner, OnAnswer } from './exchange-parties.ts'
import { UpstreamMeter } from './pool-metrics.ts'
import { UpstreamQueue } from './queue.ts'
import { type Resolve, resolveName, UpstreamAddresses } from './resolver.ts'
import { placesOf } from './targets.ts'

export interface DispatcherDeps {
  readonly settings: UpstreamSettings
  readonly follow?: Follow<UpstreamSettings>
  readonly metrics: Metrics
  readonly clock: Clock
  readonly logger: Log
  /** How names become addresses; as the machine does, unless a test says otherwise. */
  readonly resolve?: Resolve
  /** How long a client may take nothing of an answer that waits for it. */
  readonly clientStallMs?: number
}

/** The key under which a request's exchange travels through reply-from, which copies symbols along with headers. */
export const EXCHANGE = Symbol('upstream exchange')

const CLIENT_STALL_MS = 30_000

/**
 * All exchanges with the upstream: at most as many at once as there are connections, the others in order of arrival.
 * The queue is ours and not undici's, where what was given up would wait on, and nothing could be taken out.
 */
export class UpstreamDispatcher implements ExchangeOwner, Bounded {
  readonly limits: DeadlineLimits
  place = NOWHERE
  readonly #connections: number
  readonly #clients: UpstreamClients
  readonly #clock: DeadlineClock
  readonly #meter: UpstreamMeter
  readonly #circuit: Circuit
  /** The one request that tries whether the upstream is back. */
  #probe: UpstreamExchange | null = null
  readonly #queue: UpstreamQueue<UpstreamExchange>
  readonly #addresses: UpstreamAddresses
  #underWay = 0
  #admitting = false
  #destroyed = false

  constructor(deps: DispatcherDeps) {
    const { settings } = deps
    const connecting = { count: 0 }
    this.#circuit = new Circuit(settings.circuit)
    const connector = following(settings, deps.follow ?? unchanging, buildUpstreamConnector)
    this.#queue = new UpstreamQueue(settings.queue)
    this.limits = { ...settings, clientStallMs: deps.clientStallMs ?? CLIENT_STALL_MS }
    this.#connections = settings.connections
    const nowMs = () => deps.clock.monotonicMs()
    this.#clock = new DeadlineClock(nowMs)
    this.#addresses = new UpstreamAddresses(placesOf(settings), {
      nowMs,
      resolve: deps.resolve ?? resolveName,
      trouble: new TroubleLog('resolving the upstream’s name', deps.logger, deps.clock),
    })
    const connect: ConnectDeps = {
      addresses: this.#addresses,
      connector: (...asked: Parameters<buildConnector.connector>) => connector.value(...asked),
      connectTimeoutMs: settings.connectTimeoutMs,
      nowMs,
    }
    const { origin } = new URL(settings.url)
    this.#clients = new UpstreamClients(() => new UpstreamClient(new URL(origin), connect, connecting))
    this.#meter = new UpstreamMeter(deps.metrics, () => ({
      ...this.#clients.figures(),
      pending: connecting.count,
      queued: this.#queue.size,
      circuit: this.#circuit.state(this.nowMs()),
      addresses: this.#addresses.book.figures(this.nowMs()),
    }))
  }

  /**
   * @param path path and query at the upstream
   * @param waitedBeforeMs how long its client has waited already, for somebody else's answer
   */
  open(path: string, headers: Record<string, string>, waitedBeforeMs = 0): UpstreamExchange {
    return new UpstreamExchange(this, path, headers, waitedBeforeMs)
  }

  /** What reply-from calls. Of its options only the exchange counts: path and headers are the exchange's own. */
  request(options: { headers: { [EXCHANGE]: UpstreamExchange } }, onAnswer: OnAnswer): void {
    const exchange = options.headers[EXCHANGE]
    exchange.begin(onAnswer)
    const nowMs = this.nowMs()
    if (this.#underWay >= this.#connections && this.#queue.isFull) {
      exchange.fail(new UpstreamFailure('queue_full'))
    } else if (!this.#circuit.admits(nowMs)) {
      exchange.fail(new UpstreamFailure('circuit_open'))
    } else {
      if (this.#circuit.state(nowMs) === 'half_open') this.#probe = exchange
      this.#clock.add(exchange)
      if (this.#hasRoom() && this.#queue.size === 0) this.#dispatch(exchange)
      else this.#enqueue(exchange, nowMs)
    }
  }

  /** The clock's: whoever has waited too long for a connection waits no longer. */
  checkDeadline(nowMs: number): void {
    if (this.#queue.size === 0) this.#clock.delete(this)
    for (const exchange of this.#queue.overdue(nowMs)) exchange.fail(new UpstreamFailure('queue_full'))
  }

  nowMs(): number {
    return this.#clock.nowMs()
  }

  withdraw(exchange: UpstreamExchange): void {
    if (!this.#queue.delete(exchange)) return
    this.#clock.delete(exchange)
    this.#endProbe(exchange)
  }

  /** Over a connection of its own, in place of the one that broke: whichever else was kept may be as stale. */
  resend(exchange: UpstreamExchange): void {
    this.#leave(exchange)
    this.#clients.takeOnce(client => client.dispatch({ ...exchange.options, reset: true }, exchange))
  }

  answered(exchange: UpstreamExchange): void {
    this.#circuit.succeeded()
    this.#meter.answered(exchange.statusCode, exchange.headersAfterMs, exchange.retried)
  }

  failed(exchange: UpstreamExchange, failure: UpstreamFailure): void {
    if (exchange.statusCode === 0 && tellsOfAbsence(failure.kind)) {
      this.#circuit.failed(this.nowMs())
      const address = exchange.connection?.address
      if (address) this.#addresses.book.failed(address, this.nowMs())
    }
    this.#meter.failed(failure.kind, exchange.retried && exchange.statusCode === 0)
  }

  released(exchange: UpstreamExchange): void {
    this.#clock.delete(exchange)
    this.#endProbe(exchange)
    this.#underWay -= 1
    this.#leave(exchange)
    this.#admit()
  }

  /** What is under way breaks off, what waits is refused. For a gentle end, wait for the requests first. */
  destroy(): void {
    this.#destroyed = true
    for (const exchange of this.#queue.all()) exchange.fail(new UpstreamFailure('reset'))
    this.#clock.stop()
    this.#clients.destroy()
  }

  #leave(exchange: UpstreamExchange): void {
    const { client } = exchange
    exchange.client = null
    if (client !== null) this.#clients.giveBack(client, exchange.broken)
  }

  /** Where it told anything, that was said before; one that ended untold must not stay the probe for ever. */
  #endProbe(exchange: UpstreamExchange): void {
    if (exchange !== this.#probe) return
    this.#probe = null
    this.#circuit.abandoned()
  }

  #enqueue(exchange: UpstreamExchange, nowMs: number): void {
    this.#queue.add(exchange, nowMs)
    this.#clock.add(this)
  }

  #admit(): void {
    // A request that fails at once frees its place while this loop runs: one loop, not one in another.
    if (this.#admitting) return
    this.#admitting = true
    try {
      while (this.#hasRoom()) {
        const exchange = this.#queue.take()
        if (exchange === undefined) break
        this.#dispatch(exchange)
      }
    } finally {
      this.#admitting = false
    }
  }

  #hasRoom(): boolean {
    return this.#underWay < this.#connections && !this.#destroyed
  }

  #dispatch(exchange: UpstreamExchange): void {
    this.#underWay += 1
    exchange.client = this.#clients.take()
    exchange.client.dispatch(exchange.options, exchange)
  }
}
