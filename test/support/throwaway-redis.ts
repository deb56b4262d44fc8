import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { Redis } from 'ioredis'
import { onTestFinished } from 'vitest'
import { redisProgram } from './redis-program.ts'
import { until } from './until.ts'

/** A real Redis on its own port that a test can start, freeze and kill. */
export class ThrowawayRedis {
  readonly port: number
  #process: ChildProcess | null = null

  private constructor(port: number) {
    this.port = port
  }

  /** A free port on which no server listens yet. */
  static async absent(): Promise<ThrowawayRedis> {
    return new ThrowawayRedis(await freePort())
  }

  static async started(): Promise<ThrowawayRedis> {
    const redis = await ThrowawayRedis.absent()
    await redis.start()
    return redis
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  async start(): Promise<void> {
    const settings = ['--port', String(this.port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
    this.#process = spawn(redisProgram(), settings, { stdio: 'ignore' })
    const probe = this.#connect()
    try {
      await until('Redis answers', () => probe.ping().catch(() => null))
    } catch (error) {
      await this.stop()
      throw error
    } finally {
      probe.disconnect()
    }
  }

  /** Connections stay open, but the server does not respond. */
  freeze(): void {
    this.#process?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#process?.kill('SIGCONT')
  }

  /** Stops the server; it loses everything, as a Redis without persistence does. */
  async stop(): Promise<void> {
    const running = this.#process
    this.#process = null
    if (running === null || running.exitCode !== null) return
    running.kill('SIGKILL')
    await once(running, 'exit')
  }

  /** A client that closes when the running test ends. */
  client(): Redis {
    const client = this.#connect()
    onTestFinished(() => client.disconnect())
    return client
  }

  #connect(): Redis {
    const client = new Redis(this.url, { retryStrategy: () => 10, maxRetriesPerRequest: null })
    client.on('error', () => {})
    return client
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('The server has no TCP port')
  return address.port
}
