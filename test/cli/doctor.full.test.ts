import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Certificates, makeCertificates } from '../support/certificates.ts'
import { doctor, type Settings } from '../support/doctor.ts'
import { freePort } from '../support/free-port.ts'
import { openDatabase } from '../support/open-database.ts'
import { Parts } from '../support/parts.ts'
import { type Listening, runPostern } from '../support/postern-process.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import type { RecordingUpstream } from '../support/recording-upstream.ts'
import { ClusterGroup } from '../support/redis-cluster.ts'
import { addUser, type RedisGroup } from '../support/redis-group.ts'
import { SentinelGroup } from '../support/redis-sentinel.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { startStandalone } from '../support/redis-standalone.ts'
import {
  CONSOLE_RIGHTS,
  CONSOLE_USER,
  COUNTER_RIGHTS,
  GATEWAY_RIGHTS,
  GATEWAY_USER,
  LIMIT_RIGHTS,
  selectorOf,
  type User,
} from '../support/redis-users.ts'
import { json, startScriptedUpstream } from '../support/scripted-upstream.ts'
import { makeSmallDisk } from '../support/small-disk.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'

const WRONG_SECRET = randomBytes(32).toString('base64')

describe('beside a running installation', () => {
  const parts = new Parts()
  let redis: RedisServer
  let upstream: RecordingUpstream
  let control: Listening
  let certificates: Certificates
  let gateway: Settings = {}
  let database = ''

  beforeAll(async () => {
    certificates = await makeCertificates()
    redis = await parts.redis()
    await redis.admin.config('SET', 'requirepass', 'the-password')
    upstream = await parts.upstream()
    database = await parts.sqlite()
    const url = redis.url.replace('//', '//:the-password@')
    control = await parts.console({ POSTERN_REDIS_URL: url, POSTERN_DATABASE_URL: database })
    gateway = {
      ...parts.shared,
      POSTERN_REDIS_URL: url,
      POSTERN_KEY_SERVICE_URL: control.urls.internal,
      POSTERN_UPSTREAM_URL: upstream.url,
    }
  })
  afterAll(async () => {
    await parts.stop()
    certificates.remove()
  })

  test('everything is ok and the command exits with 0, of either plane and of both, in a process of its own', async () => {
    const both = { ...gateway, POSTERN_DATABASE_URL: database }
    const { code, stdout } = await runPostern(['doctor'], both)
    expect(stdout.split('\n').map(line => line.replace(/^(\w+ +\S+(?: \S+)?) {2}.*/, '$1').trim())).toEqual(
      ['redis', 'key service', 'upstream', 'database', 'redis', 'clock'].map(check => `ok      ${check}`),
    )
    expect(code).toBe(0)
    expect((await doctor('gateway', gateway)).found).toEqual(
      new Map([
        ['redis', `ok: 127.0.0.1:${redis.port} allows reading and subscribing`],
        [
          'key service',
          `ok: ${new URL(control.urls.internal).host} accepts the token and looks keys up, signing secrets agree`,
        ],
        ['upstream', `ok: ${new URL(upstream.url).host} answers with 200`],
        ['clock', 'ok: agrees with the console'],
      ]),
    )
  })

  test('a gateway is not counted, and Redis holds no key of the command', async () => {
    const before = await redis.admin.dbsize()
    await doctor('gateway', gateway)
    await doctor('console', { ...gateway, POSTERN_DATABASE_URL: database })
    expect(await redis.admin.dbsize()).toBe(before)
    const file = new DatabaseSync(database.replace('sqlite:', ''), { readOnly: true })
    expect(file.prepare('select name from gateways').all()).toEqual([])
    file.close()
  })

  test.each([
    ['a wrong password of Redis', { POSTERN_REDIS_PASSWORD: 'another-password' }, 'redis', 'redis.password'],
    ['a Redis that is not there', { POSTERN_REDIS_URL: 'redis://127.0.0.1:1' }, 'redis', 'start Redis'],
    [
      'a Redis whose name is unknown',
      { POSTERN_REDIS_URL: 'redis://nosuch.invalid' },
      'redis',
      'does not resolve',
    ],
    ['another token', { POSTERN_KEY_SERVICE_TOKEN: WRONG_SECRET }, 'key service', 'set keyService.token'],
    [
      'other signing secrets',
      { POSTERN_KEYS_SIGNING_SECRETS: WRONG_SECRET },
      'key service',
      'set keys.signingSecrets',
    ],
    ['another region', { POSTERN_REGION: 'moon' }, 'key service', 'set region to one of'],
    [
      'a key service that is not there',
      { POSTERN_KEY_SERVICE_URL: 'http://127.0.0.1:1' },
      'key service',
      'keyService.url',
    ],
    [
      'an upstream that is not there',
      { POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1' },
      'upstream',
      'start the upstream',
    ],
    [
      'an upstream whose name is unknown',
      { POSTERN_UPSTREAM_URL: 'http://nosuch.invalid' },
      'upstream',
      'does not resolve',
    ],
  ])('%s is the one failure, with what to do', async (_, wrong, check, advice) => {
    const { code, found, failed } = await doctor('gateway', { ...gateway, ...wrong })
    expect([code, failed]).toEqual([69, [check]])
    expect(found.get(check)).toContain(advice)
  })

  test('the console’s own listener is no key service, and says so', async () => {
    const { found } = await doctor('gateway', { ...gateway, POSTERN_KEY_SERVICE_URL: control.urls.console })
    expect(found.get('key service')).toContain('console.internal.port')
  })

  test('of the certificate of an upstream it says how long it is valid, and what is wrong with it', async () => {
    const run = async (pair: { cert: Buffer; key: Buffer }, caFile: string | null) => {
      const secure = await startScriptedUpstream(request => request.send(json('{}')), pair)
      const trust: Settings = caFile === null ? {} : { POSTERN_UPSTREAM_TLS_CA_FILE: caFile }
      const { found } = await doctor('gateway', { ...gateway, ...trust, POSTERN_UPSTREAM_URL: secure.url })
      await secure.stop()
      return found.get('upstream')
    }
    const { caFile } = certificates
    expect(await run(certificates.server, caFile)).toMatch(
      /^ok: .*WARNING: certificate expires in 1 day, renew it$/,
    )
    expect(await run(certificates.server, null)).toMatch(/^FAILED: .*set upstream\.tls\.caFile/)
    expect(await run(certificates.expired, caFile)).toMatch(
      /^FAILED: .*renew the certificate of the upstream$/,
    )
    expect(await run(certificates.misnamed, caFile)).toMatch(/^FAILED: .*host name that it contains/)
  })

  test('a certificate of its own that has expired fails', async () => {
    const folder = temporaryDirectory()
    const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
    writeFileSync(files.cert, certificates.expired.cert)
    writeFileSync(files.key, certificates.expired.key)
    const { failed, found } = await doctor('console', {
      ...gateway,
      POSTERN_DATABASE_URL: database,
      POSTERN_CONSOLE_INTERNAL_TLS_CERT_FILE: files.cert,
      POSTERN_CONSOLE_INTERNAL_TLS_KEY_FILE: files.key,
    })
    expect(failed).toEqual(['certificate'])
    expect(found.get('certificate')).toMatch(
      /console\.internal\.tls\.certFile expired on .*: renew the certificate/,
    )
  })

  test('of the certificate of a key service it says how long it is valid', async () => {
    const folder = temporaryDirectory()
    const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
    writeFileSync(files.cert, certificates.server.cert)
    writeFileSync(files.key, certificates.server.key)
    const secure = await parts.console({
      POSTERN_DATABASE_URL: await parts.sqlite(),
      POSTERN_CONSOLE_INTERNAL_TLS_CERT_FILE: files.cert,
      POSTERN_CONSOLE_INTERNAL_TLS_KEY_FILE: files.key,
    })
    const { found } = await doctor('gateway', {
      ...gateway,
      POSTERN_KEY_SERVICE_URL: secure.urls.internal,
      POSTERN_KEY_SERVICE_TLS_CA_FILE: certificates.caFile,
    })
    expect(found.get('key service')).toMatch(/^ok: .*WARNING: certificate expires in 1 day, renew it$/)
  })

  test('an upstream whose clock is wrong fails the clock', async () => {
    const date = new Date(Date.now() + 120_000).toUTCString()
    const ahead = await startScriptedUpstream(request => request.send(json('{}', `Date: ${date}\r\n`)))
    const { failed, found } = await doctor('gateway', { ...gateway, POSTERN_UPSTREAM_URL: ahead.url })
    await ahead.stop()
    expect(failed).toEqual(['clock'])
    expect(found.get('clock')).toMatch(
      /^FAILED: this clock is 1[12]\d\.\d s behind the upstream: synchronize/,
    )
  })

  test('a key service whose database is down is named as the cause, and not its address', async () => {
    const unavailable = json('{"code":"database_unavailable","error":"The database is unavailable"}')
    const service = await startScriptedUpstream(request =>
      request.send(unavailable.replace('200 OK', '503 Service Unavailable')),
    )
    const { found } = await doctor('gateway', { ...gateway, POSTERN_KEY_SERVICE_URL: service.url })
    await service.stop()
    expect(found.get('key service')).toMatch(
      /^FAILED: .* responded with status 503: the console cannot use its database: run postern doctor console there$/,
    )
  })

  test('a provider for sign-in that is not there fails', async () => {
    const { failed, found } = await doctor('console', {
      ...gateway,
      POSTERN_DATABASE_URL: database,
      POSTERN_CONSOLE_PUBLIC_URL: 'http://localhost:8081',
      POSTERN_CONSOLE_OIDC_ISSUER: `http://localhost:${await freePort()}`,
      POSTERN_CONSOLE_OIDC_CLIENT_ID: 'postern',
    })
    expect(failed).toEqual(['sign-in'])
    expect(found.get('sign-in')).toContain('check console.oidc.issuer')
  })
})

test('a SQLite file on a disk that is full fails, though it can be read', async ({ skip }) => {
  const disk = makeSmallDisk()
  onTestFinished(() => disk.remove())
  if (!disk.kind.startsWith('a mounted disk')) skip('mounts are not allowed here')
  const { code, found } = await doctor('console', {
    ...CONSOLE,
    POSTERN_DATABASE_URL: `sqlite:${join(disk.directory, 'postern.db')}`,
  })
  expect(code).toBe(69)
  expect(found.get('database')).toMatch(/^FAILED: the disk of .* has \d+ KiB free: free or add space/)
})

test('rights to the counters of rate limits are asked for where there are limits, without a trace in Redis', async () => {
  const group = await startStandalone()
  try {
    const policies = [{ name: 'minute', per: 'key', requests: 1, windowSeconds: 60 }]
    const env = {
      ...GATEWAY,
      POSTERN_LIMITS_POLICIES: JSON.stringify(policies),
      POSTERN_REDIS_URL: group.place.url ?? '',
      POSTERN_REDIS_USERNAME: GATEWAY_USER.username,
      POSTERN_REDIS_PASSWORD: GATEWAY_USER.password,
    }
    const [server] = group.servers
    const found = async (limitRights: readonly string[]) => {
      const selector = limitRights.length === 0 ? [] : [selectorOf(limitRights)]
      for (const each of group.servers)
        await addUser(each, GATEWAY_USER, [...GATEWAY_RIGHTS.standalone, ...selector])
      return (await doctor('gateway', env)).found.get('redis')
    }
    expect(await found(LIMIT_RIGHTS)).toMatch(/^ok: .* allows reading, subscribing and counting$/)
    expect(await group.refused()).toEqual([])
    for (const right of LIMIT_RIGHTS.filter(right => right.startsWith('+'))) {
      const name = `the ACL user lacks the right ${right}:`
      expect(await found(LIMIT_RIGHTS.filter(other => other !== right))).toContain(name)
    }
    expect(await server?.admin.dbsize()).toBe(0)
  } finally {
    await group.stop()
  }
})

test('a console is asked for the right to read those counters, which its pages show', async () => {
  const group = await startStandalone()
  try {
    const plans = { free: { policies: [{ name: 'quota', per: 'workspace', requests: 1, window: 'month' }] } }
    const env = {
      ...CONSOLE,
      POSTERN_LIMITS_PLANS: JSON.stringify(plans),
      POSTERN_REDIS_URL: group.place.url ?? '',
      POSTERN_REDIS_USERNAME: CONSOLE_USER.username,
      POSTERN_REDIS_PASSWORD: CONSOLE_USER.password,
    }
    const found = async (rights: readonly string[]) => {
      for (const server of group.servers) await addUser(server, CONSOLE_USER, rights)
      return (await doctor('console', env)).found.get('redis')
    }
    const own = CONSOLE_RIGHTS.standalone
    const allowed = await found([...own, selectorOf(COUNTER_RIGHTS)])
    expect(allowed).toMatch(/^ok: .* allows writing, publishing and reading counters$/)
    for (const right of COUNTER_RIGHTS) {
      const others = selectorOf(COUNTER_RIGHTS.filter(other => other !== right))
      const lacking = await found([...own, others])
      expect(lacking).toMatch(/^FAILED: .* does not allow reading the counters of rate limits/)
      expect(lacking).toContain(selectorOf(COUNTER_RIGHTS))
    }
    expect(await group.refused()).toEqual([])
  } finally {
    await group.stop()
  }
})

const GATEWAY = { POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1', POSTERN_KEYS_SIGNING_SECRETS: WRONG_SECRET }
const CONSOLE = {
  POSTERN_DATABASE_URL: 'sqlite::memory:',
  POSTERN_KEYS_SIGNING_SECRETS: WRONG_SECRET,
  POSTERN_KEY_SERVICE_TOKEN: WRONG_SECRET,
}

describe.each([
  ['a single Redis', () => startStandalone()],
  ['Redis with Sentinels', () => SentinelGroup.start()],
  ['a Redis Cluster', () => ClusterGroup.start({ replicas: 1 })],
] as const)('over %s', (_, start) => {
  let group: RedisGroup
  beforeAll(async () => {
    group = await start()
  })
  afterAll(() => group.stop())

  const redisOf = async (plane: string, env: Settings, { username, password }: User) => {
    const file = join(temporaryDirectory(), 'postern.yaml')
    writeFileSync(file, JSON.stringify({ redis: { ...group.place, username } }))
    const { found } = await doctor(plane, { ...env, POSTERN_REDIS_PASSWORD: password }, ['--config', file])
    return found.get('redis')
  }

  test('the rights of docs/redis.md suffice, and no command is denied', async () => {
    expect(await redisOf('gateway', GATEWAY, GATEWAY_USER)).toMatch(/^ok: .* allows reading and subscribing$/)
    expect(await redisOf('console', CONSOLE, CONSOLE_USER)).toMatch(/^ok: .* allows writing and publishing$/)
    expect(await group.refused()).toEqual([])
  })

  test.each([
    ['gateway', GATEWAY, GATEWAY_USER, GATEWAY_RIGHTS, ['+getrange', '+subscribe']],
    ['console', CONSOLE, CONSOLE_USER, CONSOLE_RIGHTS, ['+set', '+eval', '+publish']],
  ] as const)('a right that a %s lacks is named', async (plane, env, user, rights, needed) => {
    for (const right of needed) {
      const others = rights[group.kind].filter(other => other !== right)
      for (const server of group.servers) await addUser(server, user, others)
      const found = await redisOf(plane, env, user)
      expect(found).toMatch(/^FAILED: /)
      expect(found).toContain(right)
    }
    for (const server of group.servers) await addUser(server, user, rights[group.kind])
  })
})

describe.skipIf(!has(POSTGRES))('with PostgreSQL', () => {
  let postgres: PostgresServer
  beforeAll(async () => {
    postgres = await PostgresServer.started()
  })
  afterAll(async () => void (await postgres?.stop()))

  const databaseOf = async (url: string) => {
    const { code, found } = await doctor('console', { ...CONSOLE, POSTERN_DATABASE_URL: url })
    return { code, database: found.get('database'), clock: found.get('clock') }
  }

  test('an empty database is ok and stays empty; a migrated one has its schema', async () => {
    const url = await postgres.database()
    for (let run = 0; run < 2; run++) {
      expect(await databaseOf(url)).toEqual({
        code: 0,
        database: expect.stringMatching(
          /^ok: PostgreSQL \d+.*, the next start of the console migrates the schema \(0001_first_tables\)$/,
        ),
        clock: 'ok: agrees with PostgreSQL',
      })
    }
    const migrated = await postgres.migratedDatabase()
    expect((await databaseOf(migrated)).database).toMatch(/^ok: .*schema up to date$/)
  })

  test('a newer schema, and a user that is unknown or lacks rights, fail with what to do', async () => {
    const url = await postgres.migratedDatabase()
    const database = await openDatabase(url)
    const { username, password } = {
      username: `poor_${randomBytes(4).toString('hex')}`,
      password: 'of-the-poor-user',
    }
    await sql.raw(`create role ${username} login password '${password}'`).execute(database.writer)
    await sql.raw(`grant select on all tables in schema public to ${username}`).execute(database.writer)
    await sql
      .raw(`grant insert, update, delete on all tables in schema public to ${username}`)
      .execute(database.writer)
    await sql.raw(`revoke update on outbox from ${username}`).execute(database.writer)
    const as = Object.assign(new URL(url), { username, password }).href
    expect(await databaseOf(as)).toMatchObject({
      code: 69,
      database: expect.stringContaining('lacks rights on the tables outbox: GRANT'),
    })
    const unknown = Object.assign(new URL(url), { username: 'no_such_user', password: 'hunter2' }).href
    expect(await databaseOf(unknown)).toMatchObject({
      code: 69,
      database: expect.stringMatching(/^FAILED: .*Correct the user or the password/),
    })
    await sql`insert into kysely_migration (name, timestamp) values ('9999_later', '2030')`.execute(
      database.writer,
    )
    await sql.raw(`drop owned by ${username}`).execute(database.writer)
    await sql.raw(`drop role ${username}`).execute(database.writer)
    await database.close()
    expect(await databaseOf(url)).toMatchObject({
      code: 69,
      database: expect.stringContaining('newer Postern'),
    })
  })

  test('a database that accepts no changes by default fails, though it can be read', async () => {
    const url = await postgres.migratedDatabase()
    const database = await openDatabase(url)
    await sql
      .raw(`alter database "${new URL(url).pathname.slice(1)}" set default_transaction_read_only = on`)
      .execute(database.writer)
    await database.close()
    expect(await databaseOf(url)).toMatchObject({
      code: 69,
      database: expect.stringMatching(/^FAILED: .*default_transaction_read_only is on: turn it off/),
    })
  })

  test('a server that does not answer fails', async () => {
    const url = `postgres://postern:hunter2@127.0.0.1:${await freePort()}/postern`
    expect(await databaseOf(url)).toMatchObject({
      code: 69,
      database: expect.stringContaining('check that PostgreSQL runs'),
    })
  })
})
