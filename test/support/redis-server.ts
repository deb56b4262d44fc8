import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { freePort } from './free-port.ts'
import { until } from './until.ts'

export interface RedisServerOptions {
  /** Settings as on the command line: `['--maxmemory', '1mb']`. */
  readonly settings?: readonly string[]
  /** In place of all else that would stand on the command line: a file that names this port, too. */
  readonly command?: readonly string[]
  readonly port?: number
}

/** A real redis-server of its own, on a free port, that keeps nothing. */
export class RedisServer {
  readonly port: number
  /** Somebody who may do everything; for what a test wants of the server. */
  readonly admin: Redis
  readonly #directory: string
  readonly #command: readonly string[]
  #process: ChildProcess

  private constructor(port: number, directory: string, { settings = [], command }: RedisServerOptions) {
    this.port = port
    this.#directory = directory
    const fixed = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory]
    this.#command = command ?? [...fixed, '--save', '', '--appendonly', 'no', ...settings]
    this.#process = this.#spawn()
    this.admin = new Redis({
      port,
      host: '127.0.0.1',
      lazyConnect: true,
      disableClientInfo: true,
      retryStrategy: () => 20,
    })
    this.admin.on('error', () => {}) // Tests end and freeze the server on purpose.
  }

  static async start(options: RedisServerOptions = {}): Promise<RedisServer> {
    const directory = await mkdtemp(join(tmpdir(), 'postern-redis-'))
    const server = new RedisServer(options.port ?? (await freePort()), directory, options)
    await server.#untilItAnswers()
    return server
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** @param rules as in `ACL SETUSER name …rules` */
  async addUser(name: string, ...rules: string[]): Promise<void> {
    await this.admin.call('ACL', 'SETUSER', name, ...rules)
  }

  /** The user that docs/redis.md and chart tell operators to make, and nothing beyond. */
  async addGatewayUser(name: string, password: string): Promise<void> {
    const rules = ['reset', 'on', `>${password}`, '+getrange', '~postern:key:*', '+subscribe']
    await this.addUser(name, ...rules, '&postern:keys:changed')
  }

  /** Sockets stay open, nothing is answered. */
  freeze(): void {
    this.#process.kill('SIGSTOP')
  }

  thaw(): void {
    this.#process.kill('SIGCONT')
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null
  }

  /** Ends the server; what was in it is lost. */
  async kill(): Promise<void> {
    if (!this.isRunning) return
    const exited = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await exited
  }

  /** Starts it again on the same port, empty. */
  async revive(): Promise<void> {
    this.#process = this.#spawn()
    await this.#untilItAnswers()
  }

  async stop(): Promise<void> {
    this.admin.disconnect()
    await this.kill()
    await rm(this.#directory, { recursive: true, force: true })
  }

  #spawn(): ChildProcess {
    return spawn('redis-server', [...this.#command], { stdio: 'ignore' })
  }

  async #untilItAnswers(): Promise<void> {
    await until('redis-server answers', async () => {
      if (this.admin.status === 'wait') await this.admin.connect().catch(() => {})
      return (await this.admin.ping().catch(() => '')) === 'PONG'
    })
  }
}
