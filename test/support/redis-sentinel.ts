import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { freePort } from './free-port.ts'
import { Parts } from './parts.ts'
import { addUsers, NOWHERE, type Place, type RedisGroup, refusedBy } from './redis-group.ts'
import type { RedisServer } from './redis-server.ts'
import { CONSOLE_RIGHTS, GATEWAY_RIGHTS, SENTINEL_RIGHTS, SENTINEL_USER } from './redis-users.ts'
import { until } from './until.ts'

const NAME = 'postern-primary'
const SENTINELS = 3
const RIGHTS = { gateway: GATEWAY_RIGHTS.sentinel, console: CONSOLE_RIGHTS.sentinel }
/** A server that does not respond for so long counts as failed. */
const DOWN_AFTER_MS = 500

/** A real primary, a replica and three Sentinels on loopback. */
export class SentinelGroup implements RedisGroup {
  readonly kind = 'sentinel'
  readonly servers: readonly RedisServer[]
  readonly sentinels: readonly RedisServer[]
  readonly #parts: Parts

  private constructor(servers: readonly RedisServer[], sentinels: readonly RedisServer[], parts: Parts) {
    this.servers = servers
    this.sentinels = sentinels
    this.#parts = parts
  }

  static start(): Promise<SentinelGroup> {
    return Parts.start(parts => SentinelGroup.#build(parts))
  }

  static async #build(parts: Parts): Promise<SentinelGroup> {
    const directory = await parts.directory('sentinel')
    // A new replica gets its copy at once instead of after five seconds.
    const quick = ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1']
    const primary = await parts.redis({ settings: quick })
    const following = ['--replicaof', `127.0.0.1 ${primary.port}`]
    const replica = await parts.redis({ settings: [...quick, ...following] })
    const sentinels = await Parts.several(SENTINELS, index =>
      startSentinel(parts, join(directory, `sentinel-${index}.conf`), primary.port),
    )
    const group = new SentinelGroup([primary, replica], sentinels, parts)
    for (const server of group.servers) {
      await addUsers(server, RIGHTS)
    }
    await until('the Sentinels know each other and the replica', () => group.#isWhole(), 30_000)
    return group
  }

  get place(): Place {
    const urls = this.sentinels.map(({ port }) => `127.0.0.1:${port}`)
    return { ...NOWHERE, sentinel: { name: NAME, urls, ...SENTINEL_USER } }
  }

  /** The primary according to most Sentinels. */
  async primary(): Promise<RedisServer> {
    const ports = await Promise.all(this.sentinels.map(sentinel => primaryPortAt(sentinel)))
    const named = (server: RedisServer) => ports.filter(port => port === server.port).length
    const [first] = this.servers.toSorted((one, other) => named(other) - named(one))
    if (first === undefined) throw new Error('The group has no primary')
    return first
  }

  async replica(): Promise<RedisServer> {
    const primary = await this.primary()
    const replica = this.servers.find(server => server !== primary)
    if (replica === undefined) throw new Error('The group has no replica')
    return replica
  }

  /** Waits until the replica has every change. */
  async replicated(): Promise<void> {
    const primary = await this.primary()
    await until('the replica has every change', async () => (await primary.admin.wait(1, 1_000)) >= 1)
  }

  /** Waits until another server is the primary and accepts writes. */
  async failedOver(from: RedisServer): Promise<void> {
    await until(
      'the Sentinels have promoted another server',
      async () => {
        const primary = await this.primary()
        return primary !== from && (await primary.admin.role().catch(() => ['']))[0] === 'master'
      },
      30_000,
    )
  }

  /** Restores primary and replica for the next test. */
  async whole(): Promise<void> {
    for (const server of this.servers) {
      server.thaw()
      if (!server.isRunning) await server.revive()
      await addUsers(server, RIGHTS)
    }
    // The Sentinels would do the same later.
    const [primary, replica] = [await this.primary(), await this.replica()]
    if ((await replica.admin.role())[0] === 'master') await replica.admin.replicaof('127.0.0.1', primary.port)
    await until('primary and replica are healthy', () => this.#isWhole(), 60_000)
  }

  async refused(): Promise<string[]> {
    return await refusedBy([...this.servers, ...this.sentinels])
  }

  async stop(): Promise<void> {
    await this.#parts.stop()
  }

  async #isWhole(): Promise<boolean> {
    const states = await Promise.all(this.sentinels.map(sentinel => stateAt(sentinel)))
    const primary = await this.primary()
    const replica = this.servers.find(server => server !== primary)
    const role = await replica?.admin.role().catch(() => [])
    return states.every(Boolean) && role?.[0] === 'slave' && role[3] === 'connected'
  }
}

async function startSentinel(parts: Parts, file: string, primaryPort: number): Promise<RedisServer> {
  const port = await freePort()
  const { username, password } = SENTINEL_USER
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${dirname(file)}`,
    `sentinel monitor ${NAME} 127.0.0.1 ${primaryPort} 2`,
    `sentinel down-after-milliseconds ${NAME} ${DOWN_AFTER_MS}`,
    `sentinel failover-timeout ${NAME} 3000`,
    `user ${username} on >${password} ${SENTINEL_RIGHTS.join(' ')}`,
  ]
  await writeFile(file, `${lines.join('\n')}\n`)
  return await parts.redis({ port, command: [file, '--sentinel'] })
}

async function primaryPortAt(sentinel: RedisServer): Promise<number> {
  const address = await sentinel.admin.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME).catch(() => [])
  return Number((address as string[] | null)?.[1])
}

async function stateAt(sentinel: RedisServer): Promise<boolean> {
  const fields = (await sentinel.admin.call('SENTINEL', 'MASTER', NAME).catch(() => [])) as string[]
  const field = (name: string) => fields[fields.indexOf(name) + 1]
  const others = Number(field('num-other-sentinels')) === SENTINELS - 1
  return others && field('flags') === 'master' && Number(field('num-slaves')) >= 1
}
