import { once } from 'node:events'
import { globSync } from 'node:fs'
import { PostgresServer, startReplica } from '../../support/postgres-server.ts'
import { RedisServer } from '../../support/redis-server.ts'
import { json, startScriptedUpstream } from '../../support/scripted-upstream.ts'
import { makeSmallDisk } from '../../support/small-disk.ts'
import { TcpProxy } from '../../support/tcp-proxy.ts'
import { type NightOptions, NightWorld } from './night-world.ts'

/** A world that is about to break. */
export interface Breakable {
  readonly world: NightWorld
  readonly breakIt: () => unknown
  readonly mend: () => unknown
  /** After the world has stopped. */
  readonly remove?: () => unknown
}

export interface Fault {
  readonly name: string
  /** Alerts that name the cause; empty if the fault passes by itself and must raise none. */
  readonly named: readonly string[]
  /** Other alerts about what follows from it that are no second page. */
  readonly expected?: readonly string[]
  /** What the runbook's commands for the alert show. */
  readonly shows?: RegExp
  readonly begin: (name: string) => Promise<Breakable>
}

const FAST_SECONDS = 30
const PROMOTED_AFTER_MS = 20_000
const SQLITE_MIB = 48
const POSTGRES_MIB = 320
const USAGE = ['PosternUsageNotStored', 'PosternUsageReportsLate']

const starting =
  (change: (world: NightWorld) => Omit<Breakable, 'world'>, options: NightOptions = {}) =>
  async (name: string): Promise<Breakable> => {
    const world = await NightWorld.start(name, options)
    return { world, ...change(world) }
  }

const redisFault = (
  name: string,
  shows: RegExp,
  breakIt: (redis: RedisServer) => unknown,
  mend: (redis: RedisServer) => unknown,
): Fault => ({
  name,
  named: ['PosternKeyStoreUnavailable'],
  expected: ['PosternRegionBehind'],
  shows,
  begin: starting(({ redis }) => ({ breakIt: () => breakIt(redis), mend: () => mend(redis) })),
})

const upstreamFault = (
  name: string,
  alert: string,
  shows: RegExp,
  breakIt: (world: NightWorld) => unknown,
): Fault => ({
  name,
  named: [alert],
  expected: ['PosternUpstreamCircuitOpen'],
  shows,
  begin: starting(world => ({
    breakIt: () => breakIt(world),
    mend: async () => {
      const answer = json('{"id":"ws_1"}')
      await world.upstream.stop()
      world.upstream = await startScriptedUpstream(request => request.send(answer), undefined, {
        port: world.upstream.port,
      })
    },
  })),
})

/** Debian's library of the package faketime. Its program would leave the process behind when it is killed. */
const FAKETIME = globSync('/usr/lib/*/faketime/libfaketime.so.1')[0] ?? ''

const clockFault = (name: string, offset: string): Fault => ({
  name,
  named: ['PosternClockSkew'],
  shows: /Date/i,
  begin: starting(world => ({
    breakIt: () => {
      const wrong = { LD_PRELOAD: FAKETIME, FAKETIME: offset, FAKETIME_DONT_FAKE_MONOTONIC: '1' }
      return world.restart('gateway-0', wrong)
    },
    mend: () => world.restart('gateway-0'),
  })),
})

/** A database that the console reaches through a proxy, whose target changes. */
async function replicated(name: string, isPromoted: boolean): Promise<Breakable> {
  const primary = await PostgresServer.temporary()
  const url = new URL(await primary.database())
  const replica = await startReplica(url.href)
  let proxy = await TcpProxy.start(url.href)
  const { port } = proxy
  const databaseUrl = Object.assign(new URL(url), { port: String(port) }).href
  const world = await NightWorld.start(name, { databaseUrl })
  const promote = () => replica.promote()
  const leadToReplica = async () => {
    await proxy.stop()
    proxy = await TcpProxy.start(replica.urlOf(url.pathname.slice(1)), port)
  }
  return {
    world,
    breakIt: async () => {
      await primary.kill()
      if (isPromoted) await new Promise(resolve => setTimeout(resolve, PROMOTED_AFTER_MS))
      if (isPromoted) await promote()
      await leadToReplica()
    },
    mend: () => (isPromoted ? undefined : promote()),
    remove: async () => {
      await proxy.stop()
      await replica.stop()
      await primary.stop()
    },
  }
}

async function fullPostgres(name: string): Promise<Breakable> {
  const disk = makeSmallDisk(POSTGRES_MIB)
  const before = process.env['TMPDIR']
  process.env['TMPDIR'] = disk.directory
  const postgres = await PostgresServer.temporary({ shared_buffers: '16MB' })
  if (before === undefined) delete process.env['TMPDIR']
  else process.env['TMPDIR'] = before
  const world = await NightWorld.start(name, { databaseUrl: await postgres.database() })
  return {
    world,
    breakIt: () => disk.fill(0),
    mend: () => disk.free(0),
    remove: async () => {
      await postgres.stop()
      disk.remove()
    },
  }
}

async function fullSqlite(name: string): Promise<Breakable> {
  const disk = makeSmallDisk(SQLITE_MIB)
  const world = await NightWorld.start(name, { databaseUrl: `sqlite:${disk.directory}/postern.db` })
  const { pid = 0 } = world.process('console-0').process.child
  return { world, breakIt: () => disk.fill(pid), mend: () => disk.free(pid), remove: () => disk.remove() }
}

async function stoppedPostgres(name: string): Promise<Breakable> {
  const postgres = await PostgresServer.temporary()
  const databaseUrl = await postgres.database()
  const proxy = await TcpProxy.start(databaseUrl)
  const { port } = proxy
  let again: TcpProxy | null = null
  const through = Object.assign(new URL(databaseUrl), { port: String(port) }).href
  const world = await NightWorld.start(name, { databaseUrl: through })
  return {
    world,
    breakIt: () => proxy.stop(),
    mend: async () => {
      again = await TcpProxy.start(databaseUrl, port)
    },
    remove: async () => {
      await again?.stop()
      await postgres.stop()
    },
  }
}

async function replicaOfAnother(name: string): Promise<Breakable> {
  const primary = await RedisServer.start()
  const world = await NightWorld.start(name)
  return {
    world,
    breakIt: () => world.redis.admin.call('REPLICAOF', '127.0.0.1', String(primary.port)),
    mend: () => world.redis.admin.call('REPLICAOF', 'NO', 'ONE'),
    remove: () => primary.stop(),
  }
}

async function requirePassword({ admin }: RedisServer): Promise<void> {
  await admin.call('CONFIG', 'SET', 'requirepass', 'of the night')
  for (const type of ['normal', 'pubsub']) await admin.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes')
}

const signal = (world: NightWorld, name: string, kind: NodeJS.Signals) =>
  world.process(name).process.child.kill(kind)

export const FAULTS: readonly Fault[] = [
  { name: 'nothing', named: [], begin: starting(() => ({ breakIt: () => {}, mend: () => {} })) },
  redisFault(
    'redis-stopped',
    /ECONNREFUSED|refused/i,
    redis => redis.kill(),
    redis => redis.revive(),
  ),
  redisFault(
    'redis-frozen',
    /timed out|timeout|did not answer/i,
    redis => redis.freeze(),
    redis => redis.thaw(),
  ),
  {
    name: 'redis-read-only',
    named: ['PosternKeyStoreUnavailable', 'PosternRegionBehind'],
    expected: ['PosternRevocationStreamDown'],
    shows: /READONLY/,
    begin: replicaOfAnother,
  },
  {
    ...redisFault(
      'redis-full',
      /OOM/,
      async ({ admin }) => {
        await admin.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
        await admin.call('CONFIG', 'SET', 'maxmemory', '1')
      },
      ({ admin }) => admin.call('CONFIG', 'SET', 'maxmemory', '0'),
    ),
    named: ['PosternKeyStoreUnavailable', 'PosternRegionBehind'],
    expected: ['PosternRevocationStreamDown'],
  },
  redisFault('redis-password', /NOAUTH/, requirePassword, ({ admin }) =>
    admin.call('CONFIG', 'SET', 'requirepass', ''),
  ),
  {
    name: 'console-stopped',
    named: ['PosternTargetDown', 'PosternConsoleAbsent'],
    // A gateway that is disconnected asks the console first, and then Redis, which may be late.
    expected: [...USAGE, 'PosternStaleKeysAccepted'],
    shows: /no response/,
    begin: starting(world => ({
      breakIt: async () => {
        const { child } = world.process('console-0').process
        child.kill('SIGKILL')
        await once(child, 'exit')
      },
      mend: () => world.restart('console-0'),
    })),
  },
  upstreamFault('upstream-hangs', 'PosternUpstreamDown', /headers_timeout/, ({ upstream }) => {
    upstream.script = () => {}
  }),
  upstreamFault('upstream-500', 'PosternUpstreamFailing', /code="500"/, ({ upstream }) => {
    upstream.script = request => request.send(json('{}').replace('200 OK', '500 X'))
  }),
  upstreamFault('upstream-refuses', 'PosternUpstreamDown', /ECONNREFUSED/, ({ upstream }) => upstream.stop()),
  {
    name: 'postgres-stopped',
    named: ['PosternDatabaseFailing'],
    expected: USAGE,
    shows: /database is unavailable|ECONNREFUSED/,
    begin: stoppedPostgres,
  },
  {
    name: 'postgres-full',
    named: ['PosternDatabaseFailing'],
    expected: [...USAGE, 'PosternAuditWriteFailing'],
    shows: /No space left|53100|disk/,
    begin: fullPostgres,
  },
  { name: 'postgres-failed-over', named: [], begin: name => replicated(name, true) },
  {
    name: 'postgres-standby',
    named: ['PosternDatabaseFailing'],
    expected: [...USAGE, 'PosternAuditWriteFailing'],
    shows: /read-only|25006/,
    begin: name => replicated(name, false),
  },
  clockFault('gateway-clock-slow', `-${FAST_SECONDS}s`),
  clockFault('gateway-clock-fast', `+${FAST_SECONDS}s`),
  {
    name: 'sqlite-full',
    named: ['PosternDatabaseFailing'],
    expected: [...USAGE, 'PosternAuditWriteFailing'],
    shows: /full|no space/i,
    begin: fullSqlite,
  },
  {
    name: 'wrong-token',
    named: ['PosternKeyServiceTokenRejected'],
    expected: USAGE,
    shows: /40[13]/,
    begin: starting(world => ({
      breakIt: () =>
        world.restart('console-0', { POSTERN_KEY_SERVICE_TOKEN: 'another-token-than-the-gateways' }),
      mend: () => world.restart('console-0'),
    })),
  },
  {
    name: 'gateway-frozen',
    named: ['PosternReplicaDown'],
    shows: /no response/,
    begin: starting(
      world => ({
        breakIt: () => signal(world, 'gateway-1', 'SIGSTOP'),
        mend: () => signal(world, 'gateway-1', 'SIGCONT'),
      }),
      { gateways: 2 },
    ),
  },
  {
    name: 'only-gateway-frozen',
    named: ['PosternTargetDown'],
    shows: /no response/,
    begin: starting(world => ({
      breakIt: () => signal(world, 'gateway-0', 'SIGSTOP'),
      mend: () => signal(world, 'gateway-0', 'SIGCONT'),
    })),
  },
  {
    name: 'redis-and-console-stopped',
    named: ['PosternStaleKeysAccepted'],
    expected: ['PosternKeyStoreUnavailable', 'PosternTargetDown', 'PosternErrorBudgetBurnFast', ...USAGE],
    begin: starting(world => ({
      breakIt: async () => {
        await world.redis.kill()
        signal(world, 'console-0', 'SIGSTOP')
      },
      mend: async () => {
        signal(world, 'console-0', 'SIGCONT')
        await world.redis.revive()
      },
    })),
  },
]
