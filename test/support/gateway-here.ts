import pino from 'pino'
import type { Config } from '../../src/config/schema/schema.ts'
import type { KeyGrant, Lookup } from '../../src/domain/key/key-record.ts'
import { digestKey, mintSecret } from '../../src/domain/key/secret.ts'
import { createGateway, type GatewayDeps, type GatewayListeners } from '../../src/gateway/create-gateway.ts'
import { AccessLog } from '../../src/observability/access-log.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { exampleRecord, grantOf, SIGNING_KEY } from '../domain/examples.ts'
import { defaultConfig } from './default-config.ts'
import { ManualClock } from './manual-clock.ts'
import { field, RawClient } from './raw-client.ts'

type Section<Name extends keyof Config> = Partial<Config[Name]>

export interface GatewayHereOptions extends Partial<Omit<GatewayDeps, 'config'>> {
  readonly gateway?: Section<'gateway'>
  readonly upstream?: Section<'upstream'>
  readonly keyFormat?: 'signed' | 'opaque'
}

/** The listeners of a gateway in this process, with doubles of its stores and a real upstream. */
export class GatewayHere {
  readonly metrics = createMetrics()
  /** Lines of the log and of the access log. */
  readonly lines: Record<string, unknown>[] = []
  /** Digest and address of each lookup. */
  readonly lookups: [digest: string, unsignedFrom: string | null | undefined][] = []
  readonly grants = new Map<string, KeyGrant>()
  readonly clock = new ManualClock()
  phase: 'serving' | 'leaving' | 'closing' = 'serving'
  lookUp: (digest: string) => Lookup | Promise<Lookup> = digest => {
    const grant = this.grants.get(digest)
    return grant === undefined ? { kind: 'absent', tier: 'memory' } : { kind: 'found', grant, tier: 'memory' }
  }
  #listeners: GatewayListeners | null = null
  readonly #clients: RawClient[] = []

  static async start(upstreamUrl: string, options: GatewayHereOptions = {}): Promise<GatewayHere> {
    const here = new GatewayHere()
    const { gateway, upstream, keyFormat = 'signed', ...deps } = options
    const config = defaultConfig()
    const output = { write: (line: string) => void here.lines.push(JSON.parse(line)) }
    const logger = pino({ level: 'info' }, output)
    const signingSecrets = [Buffer.alloc(32, 1).toString('base64')]
    here.#listeners = await createGateway({
      config: {
        ...config,
        gateway: { ...config.gateway, ...gateway },
        upstream: { ...config.upstream, url: upstreamUrl, ...upstream },
        keys: { ...config.keys, format: keyFormat, signingSecrets },
      },
      metrics: here.metrics,
      logger,
      accessLog: new AccessLog(logger, output),
      clock: here.clock,
      keys: {
        get: (digest, unsignedFrom) => {
          here.lookups.push([digest, unsignedFrom])
          return here.lookUp(digest)
        },
        holds: () => false,
      },
      limits: { count: () => null },
      assertions: null,
      recordUsage: () => {},
      tracing: null,
      drainPhase: () => here.phase,
      heapLimitBytes: 4 * 1024 ** 3,
      onReload: () => {},
      ...deps,
    })
    const { app, check } = here.#listeners
    for (const one of [app, check]) await one?.listen({ port: 0, host: '127.0.0.1' })
    return here
  }

  get listeners(): GatewayListeners {
    if (this.#listeners === null) throw new Error('Start the gateway first')
    return this.#listeners
  }

  /** A key that the gateway accepts. */
  issue(workspaceId: string, changes: Partial<KeyGrant> = {}): string {
    const random = Buffer.alloc(32, this.grants.size + 1)
    const key = mintSecret('wsk_', random, SIGNING_KEY).reveal()
    const id = `key_${this.grants.size + 1}`
    const expiresAtMs = this.clock.wallMs() + 86_400_000
    this.grants.set(digestKey(key), {
      ...grantOf(exampleRecord({ id, workspaceId, expiresAtMs })),
      ...changes,
    })
    return key
  }

  open(bytes = '', listener: 'app' | 'check' = 'app'): RawClient {
    const address = this.listeners[listener]?.server.address()
    if (address === null || typeof address !== 'object') throw new Error(`There is no listener ${listener}`)
    const client = new RawClient(`http://127.0.0.1:${address.port}`)
    this.#clients.push(client)
    client.send(bytes)
    return client
  }

  /** Status, code of a denial, and the value of `Connection`. */
  async ask(bytes: string, listener: 'app' | 'check' = 'app'): Promise<string> {
    const client = this.open(bytes, listener)
    const [answer] = await client.answers(1)
    client.end()
    if (answer === undefined) return 'closed without a response'
    const code = /"code":"(\w+)"/.exec(answer.body)?.[1] ?? field(answer, 'x-postern-code') ?? '-'
    return `${answer.status} ${code} ${field(answer, 'connection')}`
  }

  async stop(): Promise<void> {
    // A client that only ends its side would still get its responses.
    for (const { socket } of this.#clients) socket.resetAndDestroy()
    await Promise.all([this.#listeners?.app.close(), this.#listeners?.check?.close()])
  }
}
