import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { neverReloads, type OnReload } from '../../src/config/reloadable.ts'
import { authorize } from '../../src/domain/authorize.ts'
import { compileRoutes, matchRoute } from '../../src/domain/route/route.ts'
import { AccessLog } from '../../src/observability/access-log.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { RequestObserver } from '../../src/observability/request-observer.ts'
import type { ClientRequest, Deny } from '../../src/upstream/client-request.ts'
import { createForward } from '../../src/upstream/forward.ts'
import type { UpstreamSettings } from '../../src/upstream/pool/connection.ts'
import type {
  BodySink,
  ExchangeHandler,
  UpstreamHeaders,
  UpstreamRequest,
} from '../../src/upstream/pool/exchange-parties.ts'
import { UpstreamFailure, type UpstreamFailureKind } from '../../src/upstream/pool/failure.ts'
import { withResponseCache } from '../../src/upstream/response-cache/with-response-cache.ts'
import { compileResponsePolicy } from '../../src/upstream/response-policy.ts'
import type { Upstream } from '../../src/upstream/upstream.ts'
import { exampleGrant } from '../domain/examples.ts'
import { defaultConfig } from './default-config.ts'
import { ManualClock } from './manual-clock.ts'
import { silentLogger } from './silent-logger.ts'

const { requestHeaders, responseHeaders } = defaultConfig().gateway
const GRANT = exampleGrant({
  id: 'key_01',
  workspaceId: 'ws_1',
  scopes: [],
  hint: '',
  expiresAtMs: Number.MAX_SAFE_INTEGER,
})

/** A client whose connection is in memory. */
export class ClientHere {
  readonly request: ClientRequest
  /** What `deny` was called with. */
  denied: string | null = null
  /** While this is false, it reads nothing. */
  isReading = true
  wasReset = false
  readonly #received: Buffer[] = []
  #readMore: (error?: Error) => void = () => {}

  constructor(observer: RequestObserver, headers: Record<string, string>, minor: number) {
    const socket = new Socket()
    socket._write = (chunk: Buffer | string, encoding, done) => {
      // A copy: the gateway gives back the memory of what is written.
      this.#received.push(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk))
      if (this.isReading) done()
      else this.#readMore = done
    }
    // Each chunk is written on its own.
    Object.assign(socket, { _writev: null })
    socket.resetAndDestroy = () => {
      this.wasReset = true
      return socket.destroy()
    }
    const message = new IncomingMessage(socket)
    Object.assign(message, { method: 'GET', headers, httpVersionMajor: 1, httpVersionMinor: minor })
    const response = new ServerResponse(message)
    response.assignSocket(socket)
    this.request = { message, response, observation: observer.begin(message) }
    this.request.observation.requestId = 'req-1'
  }

  get text(): string {
    return Buffer.concat(this.#received).toString('latin1')
  }

  get status(): number {
    return Number(this.text.split(' ')[1])
  }

  get body(): string {
    return this.text.slice(this.text.indexOf('\r\n\r\n') + 4)
  }

  header(name: string): string | undefined {
    const line = this.text.split('\r\n').find(field => field.toLowerCase().startsWith(`${name}: `))
    return line?.slice(name.length + 2)
  }

  readOn(): void {
    this.isReading = true
    this.readOnce()
  }

  /** Reads what was written first, and no more. */
  readOnce(): void {
    this.#readMore()
  }

  /** The system cannot send what was written first. */
  loseConnection(): void {
    this.request.message.socket.on('error', () => {})
    this.#readMore(new Error('EPIPE'))
  }

  async disconnect(): Promise<void> {
    this.request.message.socket.destroy()
    await turn()
  }
}

/** A request that reached the upstream, which the test plays. */
export class SentHere {
  readonly request: UpstreamRequest
  readonly waitedMs: number | undefined
  readonly #handler: ExchangeHandler
  wasAborted = false
  resumed = 0

  constructor(request: UpstreamRequest, handler: ExchangeHandler, waitedMs: number | undefined) {
    this.request = request
    this.#handler = handler
    this.waitedMs = waitedMs
  }

  head(statusCode: number, headers: UpstreamHeaders): BodySink | null {
    const resume = () => void this.resumed++
    return this.#handler.onHead({ statusCode, headers, waitedMs: 30, resume })
  }

  /** Sends a whole JSON response, in one piece. */
  async respond(body: string, headers: UpstreamHeaders = {}, status = 200): Promise<void> {
    const length = String(Buffer.byteLength(body))
    const sink = this.head(status, {
      'content-type': 'application/json',
      'content-length': length,
      ...headers,
    })
    if (sink?.writeAll !== undefined) sink.writeAll(Buffer.from(body))
    else sink?.write(Buffer.from(body))
    sink?.end()
    await turn()
  }

  fail(kind: UpstreamFailureKind): void {
    this.#handler.onFailure(new UpstreamFailure(kind), 30)
  }
}

interface Options {
  readonly isCoalesced?: boolean
  readonly maxBytes?: number
  readonly policy?: Upstream['policy']
  readonly deny?: Deny
  /** Whether the upstream's settings may change. */
  readonly reloads?: boolean
}

/** The way from a permitted request to the upstream and back, without a socket. */
export class ForwardHere {
  readonly clock = new ManualClock()
  readonly metrics = createMetrics()
  readonly sent: SentHere[] = []
  /** Applies a change of the upstream's settings. */
  reload = () => {}
  readonly #clients = new Map<ClientRequest, ClientHere>()
  readonly #observer = new RequestObserver({
    metrics: this.metrics,
    accessLog: new AccessLog(silentLogger, { write: () => {} }),
    tracing: null,
    routes: [],
    workspaces: null,
    recordUsage: () => {},
  })
  readonly #routes
  readonly #forward

  constructor({ isCoalesced = false, maxBytes = 0, policy, deny, reloads = true }: Options = {}) {
    this.#routes = compileRoutes([{ name: 'one', path: '/w/{workspaceId}', coalesce: isCoalesced }])
    const upstream: Pick<Upstream, 'policy' | 'send' | 'requestFor' | 'forwardedFor'> = {
      policy: policy ?? compileResponsePolicy(responseHeaders),
      requestFor: ({ message: { headers } }, { grant, upstreamTarget }) => ({
        workspaceId: grant.workspaceId,
        path: upstreamTarget,
        headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])),
      }),
      forwardedFor: () => ({ for: '192.0.2.1', proto: 'http', host: 'files.test' }),
      send: (_permit, request, handler, waitedMs) => {
        const sent = new SentHere(request, handler, waitedMs)
        this.sent.push(sent)
        return {
          abort: () => {
            sent.wasAborted = true
          },
        }
      },
    }
    // Nothing here uses the pool.
    const complete = upstream as Upstream
    const denyClient: Deny = (request, denial) => {
      const client = this.#clients.get(request)
      if (client !== undefined) client.denied = denial.reason
    }
    const onReload: OnReload<UpstreamSettings> = prepare => {
      // Only the fact of a reload counts here, not the settings.
      this.reload = prepare({} as UpstreamSettings)
    }
    this.#forward = withResponseCache(createForward(complete, deny ?? denyClient), {
      upstream: complete,
      deny: deny ?? denyClient,
      maxBytes,
      requestHeaders,
      metrics: this.metrics,
      clock: this.clock,
      onReload: reloads ? onReload : neverReloads,
    })
  }

  /** @param minor of the HTTP version @param isGone whether the client has disconnected before */
  request(
    headers: Record<string, string> = {},
    { workspace = 'ws_1', minor = 1, isGone = false } = {},
  ): ClientHere {
    const client = new ClientHere(this.#observer, headers, minor)
    this.#clients.set(client.request, client)
    if (isGone) client.request.response.destroy()
    const match = matchRoute(this.#routes, `/w/${workspace}`)
    if (match === null) throw new Error('No route')
    const lookup = { kind: 'found', grant: { ...GRANT, workspaceId: workspace }, tier: 'memory' } as const
    const verdict = authorize({ lookup, match, query: '', nowMs: 0, clientAddress: '192.0.2.1' })
    if (verdict.kind === 'denied') throw new Error(verdict.reason)
    this.#forward(client.request, verdict.permit)
    return client
  }
}

/** Responses of one turn of the event loop leave together at its end. */
export function turn(): Promise<void> {
  return new Promise(resolve => setImmediate(() => setImmediate(resolve)))
}
