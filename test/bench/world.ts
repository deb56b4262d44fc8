import { mkdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { settingByPath, settingNames } from '../../src/config/settings.ts'
import { freePort } from '../support/free-port.ts'
import { Parts } from '../support/parts.ts'
import { LOCAL } from '../support/postern-process.ts'
import { startArguments } from '../support/start-arguments.ts'
import { until } from '../support/until.ts'
import { KeyMint } from './keys.ts'
import { writeLuaGateway, writeUpstream } from './nginx.ts'
import { CONTESTANT_CORE, LOAD_CORE } from './pinned.ts'
import { ServerProcess } from './server-process.ts'

export const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url))
const SERVERS = fileURLToPath(new URL('servers/', import.meta.url))

/**
 * Redis, upstream and console on the core of the load, and contestants on theirs: each with its output in a file, so that this
 * process reads nothing while wrk measures.
 */
export class BenchWorld {
  readonly directory: string
  readonly mint: KeyMint
  readonly signingSecret: Buffer
  readonly upstream: ServerProcess
  readonly #parts: Parts
  readonly #redis: ServerProcess
  readonly #settings: Readonly<Record<string, string>>
  readonly #started: ServerProcess[] = []

  private constructor(
    parts: Parts,
    directory: string,
    fixtures: { redis: ServerProcess; upstream: ServerProcess },
    settings: Readonly<Record<string, string>>,
  ) {
    this.#parts = parts
    this.directory = directory
    this.upstream = fixtures.upstream
    this.#redis = fixtures.redis
    this.#settings = settings
    this.signingSecret = Buffer.from(settings['POSTERN_KEYS_SIGNING_SECRETS'] ?? '', 'base64')
    this.mint = new KeyMint(this.signingSecret, fixtures.redis.port)
  }

  static start(): Promise<BenchWorld> {
    return Parts.start(async parts => {
      const directory = await parts.directory('bench')
      const redis = await parts.own(await startRedis(directory))
      const upstream = await parts.own(await startUpstream(directory))
      const shared = { ...LOCAL, ...parts.shared, POSTERN_REDIS_URL: `redis://127.0.0.1:${redis.port}` }
      const internalPort = String(await freePort())
      const console = {
        ...shared,
        POSTERN_CONSOLE_INTERNAL_PORT: internalPort,
        POSTERN_ADMIN_TOKEN: parts.adminToken,
      }
      await parts.own(await startConsole(directory, console))
      const world = new BenchWorld(
        parts,
        directory,
        { redis, upstream },
        {
          ...shared,
          // The console issued none of these keys, so it must not be asked: a gateway that is disconnected, or finds Redis slow on
          // a busy machine, would ask it.
          [heartbeatsName()]: 'false',
          POSTERN_REDIS_COMMAND_TIMEOUT_MS: '5000',
          POSTERN_KEY_SERVICE_URL: `http://127.0.0.1:${internalPort}`,
          POSTERN_UPSTREAM_URL: upstream.url,
        },
      )
      await parts.own({ stop: () => world.mint.close() })
      return world
    })
  }

  get redisPort(): number {
    return this.#redis.port
  }

  /**
   * @param form.checkout whose sources run, as its own `npm start` runs them
   * @param form.words arguments for node instead of those
   * @param form.nodeFlags additional flags
   */
  async startGateway(
    name: string,
    settings: Readonly<Record<string, string>> = {},
    {
      checkout = CHECKOUT,
      words = startArgumentsInFull(checkout),
      nodeFlags = [],
    }: { checkout?: string; words?: readonly string[]; nodeFlags?: readonly string[] } = {},
  ): Promise<ServerProcess> {
    const port = await freePort()
    const own = { ...this.#settings, POSTERN_GATEWAY_PORT: String(port), ...settings }
    const all = [...nodeFlags, ...words, 'gateway']
    const gateway = await this.#start(name, process.execPath, all, port, own)
    const log = join(this.directory, `${name}.log`)
    await until(`${name} is listening`, () => readFileSync(log, 'utf8').includes('"listening"'))
    return gateway
  }

  /** Starts a server of the benchmark as its documentation shows: without V8 options. */
  async startNode(
    file: string,
    name: string,
    {
      nodeFlags = [],
      env = {},
    }: { nodeFlags?: readonly string[]; env?: Readonly<Record<string, string>> } = {},
  ): Promise<ServerProcess> {
    const port = await freePort()
    const words = [...nodeFlags, join(SERVERS, file), String(port), this.upstream.url]
    return this.#start(name, process.execPath, words, port, env)
  }

  async startLua(): Promise<ServerProcess> {
    const port = await freePort()
    const directory = join(this.directory, 'lua')
    mkdirSync(directory)
    const ports = { own: port, upstream: this.upstream.port, redis: this.#redis.port }
    return this.#start('nginx', 'nginx', ['-c', writeLuaGateway(directory, ports)], port)
  }

  /** @param write writes the configuration into the directory, and returns its path */
  async startNginx(name: string, write: (directory: string, port: number) => string): Promise<ServerProcess> {
    const port = await freePort()
    const directory = join(this.directory, name)
    mkdirSync(directory)
    return this.#start(name, 'nginx', ['-c', write(directory, port)], port)
  }

  /** @param write writes the configuration into the directory, and returns its path */
  async startCaddy(
    write: (directory: string, ports: { own: number; upstream: number }) => string,
  ): Promise<ServerProcess> {
    const port = await freePort()
    const directory = join(this.directory, 'caddy')
    mkdirSync(directory)
    const words = ['run', '--config', write(directory, { own: port, upstream: this.upstream.port })]
    return this.#start('caddy', 'caddy', words, port, { HOME: directory })
  }

  /** Stops all contestants; a profile is written when its process exits. */
  async stopGateways(): Promise<void> {
    await Promise.all(this.#started.splice(0).map(started => started.stop()))
  }

  async stop(): Promise<void> {
    await this.stopGateways()
    await this.#parts.stop()
  }

  async #start(
    name: string,
    program: string,
    words: readonly string[],
    port: number,
    env: Readonly<Record<string, string>> = {},
  ): Promise<ServerProcess> {
    const what = { core: CONTESTANT_CORE, program, words, env, port, directory: this.directory, name }
    const started = await ServerProcess.start(what)
    this.#started.push(started)
    return started
  }
}

async function startRedis(directory: string): Promise<ServerProcess> {
  const port = await freePort()
  const words = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  return ServerProcess.start({
    core: LOAD_CORE,
    program: 'redis-server',
    words,
    port,
    directory,
    name: 'redis',
  })
}

async function startUpstream(directory: string): Promise<ServerProcess> {
  const port = await freePort()
  const own = join(directory, 'upstream')
  mkdirSync(own)
  const words = ['-c', writeUpstream(own, port)]
  return ServerProcess.start({ core: LOAD_CORE, program: 'nginx', words, port, directory, name: 'upstream' })
}

async function startConsole(
  directory: string,
  settings: Readonly<Record<string, string>>,
): Promise<ServerProcess> {
  const port = await freePort()
  const env = { ...settings, POSTERN_CONSOLE_PORT: String(port), POSTERN_DATABASE_URL: 'sqlite::memory:' }
  const words = [...startArgumentsInFull(CHECKOUT), 'console']
  return ServerProcess.start({
    core: LOAD_CORE,
    program: process.execPath,
    words,
    env,
    port,
    directory,
    name: 'console',
  })
}

/** Of the setting in the environment: its name in the contract, which earlier versions know too. */
function heartbeatsName(): string {
  const setting = settingByPath.get('redis.heartbeats')
  const last = setting === undefined ? undefined : settingNames(setting, 'environment').at(-1)
  if (last === undefined) throw new Error('There is no setting redis.heartbeats')
  return last.name
}

/** With absolute paths. */
function startArgumentsInFull(checkout: string): string[] {
  return startArguments(checkout).map(word =>
    word.startsWith('./') || word.startsWith('src/') ? resolve(checkout, word) : word,
  )
}
