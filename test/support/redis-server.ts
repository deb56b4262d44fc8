import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { freePort } from './free-port.ts'
import { end, isRunning, readyOrStopped } from './ready.ts'
import { redisProgram } from './redis-program.ts'
import { until } from './until.ts'

export interface RedisServerOptions {
  /** Command-line options, such as `['--maxmemory', '1mb']`. */
  readonly settings?: readonly string[]
  /** Configuration file that replaces all other options; it must set this port. */
  readonly command?: readonly string[]
  readonly port?: number
}

/** A real redis-server on a port of its own, without persistence, that a test can freeze, kill and start again. */
export class RedisServer {
  readonly port: number
  /** Client with all rights, for the test's own commands. */
  readonly admin: Redis
  readonly #directory: string
  readonly #command: readonly string[]
  readonly #clients: Redis[] = []
  #process: ChildProcess | null = null

  private constructor(port: number, directory: string, { settings = [], command }: RedisServerOptions) {
    this.port = port
    this.#directory = directory
    const fixed = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory]
    this.#command = command ?? [...fixed, '--save', '', '--appendonly', 'no', ...settings]
    this.admin = new Redis({
      port,
      host: '127.0.0.1',
      lazyConnect: true,
      disableClientInfo: true,
      retryStrategy: () => 20,
    })
    this.admin.on('error', () => {}) // Tests stop and freeze the server on purpose.
  }

  static async start(options: RedisServerOptions = {}): Promise<RedisServer> {
    const server = await RedisServer.absent(options)
    return readyOrStopped(server, () => server.revive())
  }

  /** Not started: no server listens on its port until `revive`. */
  static async absent(options: RedisServerOptions = {}): Promise<RedisServer> {
    const directory = await mkdtemp(join(tmpdir(), 'postern-redis-'))
    return new RedisServer(options.port ?? (await freePort()), directory, options)
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** @param rules as in `ACL SETUSER name …rules` */
  async addUser(name: string, ...rules: string[]): Promise<void> {
    await this.admin.call('ACL', 'SETUSER', name, ...rules)
  }

  /** The user that docs/redis.md and the chart describe, with no further rights. */
  async addGatewayUser(name: string, password: string): Promise<void> {
    const rules = ['reset', 'on', `>${password}`, '+getrange', '~postern:key:*', '+subscribe']
    await this.addUser(name, ...rules, '&postern:keys:changed')
  }

  /** Of keys; the mark of the console is none. */
  async countRecords(): Promise<number> {
    const names = await this.admin.keys('postern:key:*')
    return names.filter(name => /:[0-9a-f]{64}$/.test(name)).length
  }

  /** A further client, such as a subscriber, that waits for the server as long as it is down. It closes with `stop`. */
  client(): Redis {
    const client = new Redis(this.url, { retryStrategy: () => 10, maxRetriesPerRequest: null })
    client.on('error', () => {})
    this.#clients.push(client)
    return client
  }

  /** Stops the process with SIGSTOP: connections stay open, but it does not respond. */
  freeze(): void {
    this.#process?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#process?.kill('SIGCONT')
  }

  get pid(): number {
    return this.#process?.pid ?? 0
  }

  get isRunning(): boolean {
    return this.#process !== null && isRunning(this.#process)
  }

  /** Kills the server; its data is lost. */
  async kill(): Promise<void> {
    if (this.#process !== null) await end(this.#process)
  }

  /** Starts the server on its port, empty. */
  async revive(): Promise<void> {
    this.#process = this.#spawn()
    await this.#untilItAnswers()
  }

  async stop(): Promise<void> {
    for (const client of [this.admin, ...this.#clients]) client.disconnect()
    await this.kill()
    await rm(this.#directory, { recursive: true, force: true })
  }

  #spawn(): ChildProcess {
    return spawn(redisProgram(), [...this.#command], { stdio: 'ignore' })
  }

  async #untilItAnswers(): Promise<void> {
    await until('redis-server answers', async () => {
      if (!this.isRunning) throw new Error(`${redisProgram()} has ended: ${this.#command.join(' ')}`)
      if (this.admin.status === 'wait') await this.admin.connect().catch(() => {})
      return (await this.admin.ping().catch(() => '')) === 'PONG'
    })
  }
}
