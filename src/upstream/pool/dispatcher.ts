import { type OnReload, reloadable } from '../../config/reloadable.ts'
import { Circuit } from '../../domain/circuit.ts'
import type { Clock } from '../../domain/clock.ts'
import { FailureLog, type Log } from '../../observability/failure-log.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { buildUpstreamConnector, UpstreamClient, type UpstreamSettings } from './connection.ts'
import { ConnectionShares, selectForPreemption } from './connection-shares.ts'
import {
  type ConnectDeps,
  listUpstreamTargets,
  type Resolve,
  resolveName,
  UpstreamAddresses,
} from './connector.ts'
import { type DeadlineLimits, DeadlineSweeper, type HasDeadline, NO_SLOT } from './deadlines.ts'
import { UpstreamExchange } from './exchange.ts'
import type {
  ExchangeHandler,
  ExchangeOwner,
  PreemptableExchange,
  UpstreamRequest,
} from './exchange-parties.ts'
import { isTimeout, isUnreachable, toLogCause, UpstreamFailure } from './failure.ts'
import { PoolMetrics } from './pool-metrics.ts'
import { canConnect, Reachability } from './reachability.ts'

export interface DispatcherDeps {
  readonly settings: UpstreamSettings
  /** Fixed headers and TLS can change while the process runs. */
  readonly onReload: OnReload<UpstreamSettings>
  readonly metrics: Metrics
  readonly clock: Clock
  readonly logger: Log
  /** Resolves host names; the system's resolver by default. */
  readonly resolve?: Resolve
  /** How long a client may read nothing of a response that is ready, in ms. */
  readonly clientStallMs?: number
}

const CLIENT_STALL_MS = 30_000
/** As many as workspaces get a fair share: one whose requests are slow must not be the only one to probe. */
const MAX_PROBES = 4

/**
 * All exchanges with the upstream: at most as many at once as there are connections, shared fairly between workspaces.
 * The queue is not undici's, because an aborted request would stay in undici's queue.
 */
export class UpstreamDispatcher implements ExchangeOwner<UpstreamExchange>, HasDeadline {
  readonly limits: DeadlineLimits
  slot = NO_SLOT
  readonly #clients: UpstreamClients
  readonly #sweeper: DeadlineSweeper
  readonly #poolMetrics: PoolMetrics
  readonly #circuit: Circuit
  /** By workspace, the requests that a half-open circuit admits. */
  readonly #probes = new Map<string, UpstreamExchange>()
  /** When a response began last; monotonic. */
  #answeredAtMs = Number.NEGATIVE_INFINITY
  readonly #shares: ConnectionShares<UpstreamExchange>
  readonly #addresses: UpstreamAddresses
  readonly #failures: FailureLog
  readonly #reachability: Reachability
  #admitting = false
  #destroyed = false

  constructor(deps: DispatcherDeps) {
    const { settings } = deps
    const connecting = { count: 0 }
    this.#circuit = new Circuit({ ...settings.circuit, maxProbes: MAX_PROBES })
    const connector = reloadable(settings, deps.onReload, buildUpstreamConnector)
    this.#shares = new ConnectionShares(settings)
    this.limits = { ...settings, clientStallMs: deps.clientStallMs ?? CLIENT_STALL_MS }
    const nowMs = () => deps.clock.monotonicMs()
    this.#sweeper = new DeadlineSweeper(nowMs)
    this.#failures = new FailureLog('upstream', deps.logger, deps.clock)
    this.#addresses = new UpstreamAddresses(listUpstreamTargets(settings), {
      nowMs,
      resolve: deps.resolve ?? resolveName,
      failures: new FailureLog('upstream name resolution', deps.logger, deps.clock),
    })
    const connect: ConnectDeps = {
      addresses: this.#addresses,
      connector: (options, connected) => connector.value(options, connected),
      connectTimeoutMs: settings.connectTimeoutMs,
      nowMs,
    }
    const origin = new URL(new URL(settings.url).origin)
    this.#clients = new UpstreamClients(() => new UpstreamClient(origin, connect, connecting))
    this.#reachability = new Reachability(() => canConnect(connect, origin), nowMs)
    this.#poolMetrics = new PoolMetrics(deps.metrics, () => ({
      ...this.#clients.stats(),
      pending: connecting.count,
      queued: this.#shares.queued,
      circuit: this.#circuit.state(this.nowMs()),
      addresses: this.#addresses.book.stats(this.nowMs()),
    }))
  }

  /** @param waitedBeforeMs how long the client has already waited for a coalesced request */
  send(request: UpstreamRequest, handler: ExchangeHandler, waitedBeforeMs = 0): UpstreamExchange {
    const exchange = new UpstreamExchange(this, request, handler, waitedBeforeMs)
    const nowMs = this.nowMs()
    const isFree = !this.#destroyed && this.#shares.isFreeFor(exchange.workspaceId, nowMs)
    const displaced = isFree ? undefined : this.#shares.displacedFor(exchange.workspaceId)
    if (!isFree && this.#shares.isQueueFull && displaced === undefined) {
      exchange.fail(new UpstreamFailure('queue_full'))
    } else if (!this.#circuit.admits(nowMs, exchange.workspaceId)) {
      exchange.fail(new UpstreamFailure('circuit_open'))
    } else {
      if (this.#circuit.state(nowMs) === 'half_open') this.#probes.set(exchange.workspaceId, exchange)
      this.#sweeper.add(exchange)
      displaced?.fail(new UpstreamFailure('preempted'))
      if (isFree) {
        this.#shares.hold(exchange)
        exchange.sendOn(this.#clients.take())
      } else this.#enqueue(exchange, nowMs)
    }
    return exchange
  }

  /** Rejects requests that waited too long for a connection, and frees connections for workspaces below their share. */
  checkDeadline(nowMs: number): void {
    if (this.#shares.queued === 0) this.#sweeper.delete(this)
    for (const exchange of this.#shares.overdue(nowMs)) exchange.fail(new UpstreamFailure('queue_full'))
    this.#preempt(nowMs)
    // The reserve may have shrunk.
    this.#admit()
  }

  nowMs(): number {
    return this.#sweeper.nowMs()
  }

  /** `down`: the last request, or the last attempt to connect, failed, or the circuit is not closed. */
  async health(): Promise<'ok' | 'down' | 'unknown'> {
    const isClosed = this.#circuit.state(this.nowMs()) === 'closed'
    return isClosed ? await this.#reachability.check() : 'down'
  }

  withdraw(exchange: UpstreamExchange): void {
    if (!this.#shares.withdraw(exchange)) return
    this.#sweeper.delete(exchange)
    this.#endProbe(exchange)
  }

  /** Uses a new connection, because all idle ones may be stale like the broken one. */
  resend(exchange: UpstreamExchange): void {
    this.#giveBack(exchange, true)
    this.#clients.carryOnce(exchange)
  }

  headReceived(exchange: UpstreamExchange): void {
    const nowMs = this.nowMs()
    this.#answeredAtMs = nowMs
    const address = exchange.client?.connection.address
    if (address) this.#addresses.book.answered(address, nowMs)
    this.#reachability.note('ok', nowMs)
    this.#circuit.succeeded()
    this.#failures.succeeded()
    this.#poolMetrics.headReceived(exchange.statusCode, exchange.waitedMs, exchange.retried)
  }

  failed(exchange: UpstreamExchange, failure: UpstreamFailure): void {
    if (exchange.statusCode === 0 && isUnreachable(failure.kind)) {
      const nowMs = this.nowMs()
      if (this.#saysUpstreamFails(exchange, failure, nowMs)) {
        this.#circuit.failed(nowMs)
        this.#reachability.note('down', nowMs)
      }
      const address = exchange.client?.connection.address
      const { book } = this.#addresses
      if (address && isTimeout(failure.kind)) book.timedOut(address, nowMs - exchange.waitedMs, nowMs)
      else if (address) book.failed(address, nowMs)
    }
    const cause = exchange.statusCode === 0 && !this.#destroyed ? toLogCause(failure) : null
    if (cause !== null) this.#failures.failed(cause)
    this.#poolMetrics.failed(failure.kind, exchange.retried && exchange.statusCode === 0)
  }

  released(exchange: UpstreamExchange, broken: boolean): void {
    this.#sweeper.delete(exchange)
    this.#endProbe(exchange)
    this.#shares.release(exchange)
    this.#giveBack(exchange, broken)
    this.#admit()
  }

  /** Aborts exchanges in flight and rejects queued ones. For an orderly shutdown, wait for the requests first. */
  destroy(): void {
    this.#destroyed = true
    for (const exchange of this.#shares.all()) exchange.fail(new UpstreamFailure('reset'))
    this.#sweeper.stop()
    this.#clients.destroy()
  }

  /**
   * Not if the upstream answered other requests while this one waited: otherwise one workspace could open the circuit for all, with a
   * few requests that take too long. Nor if the request was sent before the circuit opened: those would keep it open.
   */
  #saysUpstreamFails(exchange: UpstreamExchange, { kind }: UpstreamFailure, nowMs: number): boolean {
    if (isTimeout(kind) && this.#answeredAtMs > nowMs - exchange.waitedMs) return false
    return this.#circuit.state(nowMs) === 'closed' || this.#probes.get(exchange.workspaceId) === exchange
  }

  #giveBack({ client }: UpstreamExchange, broken: boolean): void {
    if (client !== null) this.#clients.giveBack(client, broken)
  }

  /** A probe that ended without an outcome must not keep the circuit half-open. */
  #endProbe(exchange: UpstreamExchange): void {
    const { workspaceId } = exchange
    if (this.#probes.get(workspaceId) !== exchange) return
    this.#probes.delete(workspaceId)
    this.#circuit.abandoned(workspaceId)
  }

  #enqueue(exchange: UpstreamExchange, nowMs: number): void {
    this.#shares.enqueue(exchange, nowMs)
    this.#sweeper.add(this)
  }

  #admit(): void {
    // A request that fails at once frees its connection while this loop runs; this avoids a nested loop.
    if (this.#admitting || this.#shares.queued === 0) return
    this.#admitting = true
    try {
      const nowMs = this.nowMs()
      while (!this.#destroyed) {
        const exchange = this.#shares.next(nowMs)
        if (exchange === undefined) break
        exchange.sendOn(this.#clients.take())
      }
    } finally {
      this.#admitting = false
    }
  }

  /** Aborts exchanges of workspaces above their share, each of which frees a connection at once. */
  #preempt(nowMs: number): void {
    if (!this.#shares.isOwed(nowMs)) return
    const preemptable = findPreemptable(this.#sweeper.all(), nowMs)
    while (this.#shares.isOwed(nowMs)) {
      const first = selectForPreemption(preemptable, workspaceId => this.#shares.measureExcess(workspaceId))
      if (first === undefined) break
      preemptable.delete(first)
      this.#shares.preempted(nowMs)
      first.exchange.preempt()
    }
  }
}

function findPreemptable(
  swept: readonly HasDeadline[],
  nowMs: number,
): Set<PreemptableExchange<UpstreamExchange>> {
  const preemptable = new Set<PreemptableExchange<UpstreamExchange>>()
  for (const each of swept) {
    const candidate = each instanceof UpstreamExchange ? each.preemptionCandidate(nowMs) : null
    if (candidate !== null) preemptable.add(candidate)
  }
  return preemptable
}

/**
 * The clients of the upstream, each with one connection, taken for an exchange and given back after it. undici's Pool
 * would search all of them and wrap each handler once more for each request.
 */
export class UpstreamClients {
  readonly #make: () => UpstreamClient
  readonly #all = new Set<UpstreamClient>()
  /** Clients for a single exchange, closed after it. */
  readonly #temporary = new WeakSet<UpstreamClient>()
  /** A stack: the client used last is taken first, because its connection is least likely to be stale. */
  readonly #free: UpstreamClient[] = []

  constructor(make: () => UpstreamClient) {
    this.#make = make
  }

  take(): UpstreamClient {
    return this.#free.pop() ?? this.#add()
  }

  /** @param broken whether the exchange failed: the client may still be handling the loss, and is taken last */
  giveBack(client: UpstreamClient, broken: boolean): void {
    if (this.#temporary.has(client)) return
    if (broken) this.#free.unshift(client)
    else this.#free.push(client)
  }

  /** Carries one exchange on a new connection. */
  carryOnce(exchange: UpstreamExchange): void {
    const client = this.#add()
    this.#temporary.add(client)
    exchange.sendOn(client, true)
    void client.close().finally(() => this.#all.delete(client))
  }

  /** @returns counts of open connections and of unused ones among them */
  stats(): { open: number; free: number } {
    const open = [...this.#all].filter(client => client.isConnected).length
    return { open, free: this.#free.filter(client => client.isConnected).length }
  }

  destroy(): void {
    for (const client of this.#all) void client.destroy()
  }

  #add(): UpstreamClient {
    const client = this.#make()
    this.#all.add(client)
    return client
  }
}
