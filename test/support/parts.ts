import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DATABASES } from './databases.ts'
import { type Listening, startPostern } from './postern-process.ts'
import { RecordingUpstream } from './recording-upstream.ts'
import { RedisServer, type RedisServerOptions } from './redis-server.ts'
import { TcpProxy } from './tcp-proxy.ts'

type Settings = Readonly<Record<string, string>>

/** `undefined` leaves out one that all processes share. */
type OwnSettings = Readonly<Record<string, string | undefined>>

export interface AdminAnswer {
  readonly status: number
  readonly json: Record<string, unknown>
}

/**
 * Starts the parts of an installation as processes that share their secrets, and stops them in the opposite order. Every
 * installation of tests and benchmarks is built of it, and adds what is its own.
 */
export class Parts {
  readonly adminToken = randomBytes(24).toString('base64url')
  /** Settings of every process. */
  readonly shared: Settings = {
    POSTERN_KEY_SERVICE_TOKEN: randomBytes(24).toString('base64url'),
    POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
    POSTERN_DRAIN_DELAY_MS: '0',
  }
  readonly #started = new AsyncDisposableStack()

  /** Where one part does not start, those before it are stopped. */
  static async start<Built>(build: (parts: Parts) => Promise<Built>): Promise<Built> {
    const parts = new Parts()
    try {
      return await build(parts)
    } catch (error) {
      await parts.stop()
      throw error
    }
  }

  async redis(options: RedisServerOptions = {}): Promise<RedisServer> {
    return this.own(await RedisServer.start(options))
  }

  async upstream(): Promise<RecordingUpstream> {
    return this.own(await RecordingUpstream.start())
  }

  /** A relay before a server, that a test can delay, hold and cut. */
  async proxy(url: string): Promise<TcpProxy> {
    return this.own(await TcpProxy.start(url))
  }

  /** It is removed when the parts have stopped. */
  async directory(name: string, parent = tmpdir()): Promise<string> {
    const directory = await mkdtemp(join(parent, `postern-${name}-`))
    this.#started.defer(() => rm(directory, { recursive: true, force: true }))
    return directory
  }

  /** @returns the URL of a new database */
  async sqlite(): Promise<string> {
    return `sqlite:${join(await this.directory('database', DATABASES), 'postern.db')}`
  }

  /**
   * Over a database of its own, unless settings name one.
   * @param launcher program and first arguments, if not those of this checkout
   */
  async console(settings: OwnSettings, launcher?: readonly string[]): Promise<Listening> {
    const databaseUrl = settings['POSTERN_DATABASE_URL'] ?? (await this.sqlite())
    const own = { POSTERN_ADMIN_TOKEN: this.adminToken, ...settings, POSTERN_DATABASE_URL: databaseUrl }
    return this.#process('console', own, launcher)
  }

  gateway(settings: OwnSettings, launcher?: readonly string[]): Promise<Listening> {
    return this.#process('gateway', settings, launcher)
  }

  /** Calls the admin API of a console that has the token of these parts. */
  async admin(
    { urls }: Pick<Listening, 'urls'>,
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<AdminAnswer> {
    const response = await fetch(`${urls.console}/admin/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.adminToken}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    })
    return { status: response.status, json: (await response.json()) as AdminAnswer['json'] }
  }

  /** @throws unless the console answers with success */
  async change(
    console: Pick<Listening, 'urls'>,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<AdminAnswer['json']> {
    const { status, json } = await this.admin(console, 'POST', path, body, signal)
    if (status > 299) throw new Error(`The console answered ${status}: ${JSON.stringify(json)}`)
    return json
  }

  /** A key of `ws_1` with one scope. */
  async issue(console: Pick<Listening, 'urls'>): Promise<{ readonly id: string; readonly secret: string }> {
    const body = { name: 'k', scopes: ['workspace:read'] }
    const { key, secret } = await this.change(console, '/workspaces/ws_1/keys', body)
    return { id: String((key as { id: string }).id), secret: String(secret) }
  }

  /** Several at a time. Where one does not start, the others are waited for, so that they are stopped too. */
  static async several<Part>(count: number, start: (index: number) => Promise<Part>): Promise<Part[]> {
    const settled = await Promise.allSettled(Array.from({ length: count }, (_, index) => start(index)))
    return settled.map(outcome => {
      if (outcome.status === 'rejected') throw outcome.reason
      return outcome.value
    })
  }

  /** Processes are killed, frozen ones too. */
  async stop(): Promise<void> {
    await this.#started.disposeAsync()
  }

  async #process(
    plane: 'console' | 'gateway',
    settings: OwnSettings,
    launcher?: readonly string[],
  ): Promise<Listening> {
    const all: [string, string][] = []
    for (const [name, value] of Object.entries({ ...this.shared, ...settings })) {
      if (value !== undefined) all.push([name, value])
    }
    const running = await startPostern(plane, Object.fromEntries(all), [], launcher)
    await this.own({ stop: () => running.process.stop() })
    return running
  }

  /** Stops a part of another kind with the others. */
  async own<Part extends { stop(): unknown }>(part: Part): Promise<Part> {
    if (this.#started.disposed) {
      await part.stop()
      throw new Error('The other parts were stopped while this one started')
    }
    this.#started.defer(async () => void (await part.stop()))
    return part
  }
}
