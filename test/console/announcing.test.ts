import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createInProcessAnnouncer } from '../../src/console/announcing/announcer.ts'
import { systemTimers, type Timers } from '../../src/domain/clock.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { REVOCATION_TIMING } from '../../src/domain/revocation-timing.ts'
import { CHANGES_CHANNEL, decodeRecord, deriveRecordKey, recordKeyName } from '../../src/domain/wire.ts'
import { type RunningConsole, SIGNING_SECRET, startConsole } from '../support/console.ts'
import { threadCpuMs } from '../support/cpu-time.ts'
import { measured } from '../support/measured-again.ts'
import { readMessage } from '../support/messages.ts'
import { metricValue } from '../support/metric-value.ts'
import { openDatabase } from '../support/open-database.ts'
import { RedisServer } from '../support/redis-server.ts'
import { runs } from '../support/runs.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { until } from '../support/until.ts'

const BURST = runs(80, 500)
const KEYS = '/admin/v1/workspaces/ws_1/keys'
/** The wait for Redis, and half as long for all else that a revocation does. */
const REVOKED_WITHIN_MS = REVOCATION_TIMING.announceTimeoutMs * 1.5
const request = { name: 'build server', scopes: ['workspace:read'] }
const recordKeys = [deriveRecordKey(SIGNING_SECRET)]
let redis: RedisServer

beforeEach(async () => {
  redis = await RedisServer.absent()
})
afterEach(() => redis.stop())

async function issue({ send }: RunningConsole) {
  const { status, body } = await send('POST', KEYS, request)
  expect(status).toBe(201)
  return { id: body.key.id as string, secret: body.secret as string, digest: digestKey(body.secret) }
}

const revoke = ({ send }: RunningConsole, id: string) => send('POST', `/admin/v1/keys/${id}/revoke`)

/** Records every message that a gateway would receive from now on. */
async function listen() {
  const received: string[] = []
  const heartbeatCpuMs: number[] = []
  const subscriber = redis.client()
  subscriber.on('message', (_, text: string) => {
    received.push(text)
    if (readMessage(text)?.kind === 'heartbeat') heartbeatCpuMs.push(threadCpuMs())
  })
  await subscriber.subscribe(CHANGES_CHANNEL)
  const changes = () =>
    received.map(readMessage).flatMap(message => (message?.kind === 'change' ? [message] : []))
  const heartbeats = () => received.filter(text => readMessage(text)?.kind === 'heartbeat').length
  return { received, heartbeatCpuMs, changes, heartbeats }
}

async function grantIn(client: Redis, digest: string) {
  const decoded = decodeRecord((await client.get(recordKeyName(digest))) ?? '', digest, recordKeys)
  return decoded.ok ? decoded.grant : null
}

const connected = ({ health }: RunningConsole) =>
  until('the console is connected', async () => (await health()).announcer === 'ready')

const started = async () => {
  await redis.revive()
  const running = await startConsole({ redisUrl: redis.url })
  await connected(running)
  return running
}

describe('with Redis', () => {
  test('an issued key is in Redis, with a valid MAC, when its response arrives', async () => {
    const running = await started()
    const { id, digest } = await issue(running)
    expect(await grantIn(redis.client(), digest)).toMatchObject({ id, version: 1, revokedAtMs: null })
  })

  test('a revocation is in Redis and on the channel when its response says announced', async () => {
    const running = await started()
    const { id, digest } = await issue(running)
    const { changes } = await listen()
    const { body } = await revoke(running, id)
    expect(body.announced).toBe(true)
    expect((await grantIn(redis.client(), digest))?.revokedAtMs).toBe(Date.parse(body.key.revokedAt))
    const [change] = await until('the change arrives', () => changes().length > 0 && changes())
    expect(change).toMatchObject({ digest, version: 2 })
    expect(change?.atMs).toBeGreaterThanOrEqual(Date.parse(body.key.revokedAt))
    expect((await revoke(running, id)).body.announced).toBe(true)
  })

  test('the commands of the announcer are counted, with the time that they took', async () => {
    const beganMs = performance.now()
    const running = await started()
    await issue(running)
    const { redisCommands, redisCommandDuration } = running.metrics
    for (const command of ['eval', 'publish']) {
      const counted = () => metricValue(redisCommands, { command, outcome: 'ok' })
      const count = await until(`${command} is counted`, async () => (await counted()) || null)
      const { values } = await redisCommandDuration.get()
      const of = (end: string) =>
        values.find(({ metricName, labels }) => metricName?.endsWith(end) && labels.command === command)
          ?.value
      expect(of('_count')).toBeGreaterThanOrEqual(count)
      expect(of('_sum')).toBeGreaterThan(0)
      expect(of('_sum')).toBeLessThan((performance.now() - beganMs) / 1000)
    }
  })

  test('a command that Redis refuses is counted as an error, not as one without an answer in time', async () => {
    const running = await started()
    const { id } = await issue(running)
    const counted = (outcome: string) =>
      metricValue(running.metrics.redisCommands, { command: 'eval', outcome })
    const client = redis.client()
    await client.config('SET', 'maxmemory', '1')
    await revoke(running, id)
    await until('it was refused', async () => (await counted('error')) > 0)
    expect(await counted('timeout')).toBe(0)
    await client.config('SET', 'maxmemory', '0')
  })

  test('Redis never holds the secret', async () => {
    const running = await started()
    const { received } = await listen()
    const { id, secret } = await issue(running)
    await revoke(running, id)
    const client = redis.client()
    const stored = await Promise.all((await client.keys('*')).map(name => client.get(name)))
    const everything = JSON.stringify([await client.keys('*'), stored, received])
    expect(everything).toContain(id)
    for (const part of [secret, secret.slice(4, 47)]) expect(everything).not.toContain(part)
  })

  test('heartbeats arrive at least twice a second', async () => {
    await started()
    const { received } = await listen()
    const times = await until(
      'eight heartbeats arrive',
      () => received.length >= 8 && received.map(text => JSON.parse(text).at),
    )
    const gaps = times.slice(1).map((at: number, index: number) => at - times[index])
    // Each gap is a time on this machine, which is busy with other tests: the median says what the period is.
    expect(gaps.toSorted((a: number, b: number) => a - b)[3]).toBeLessThanOrEqual(500)
  })

  test(`a burst of ${BURST} revocations is announced as it is committed, and no gateway disconnects`, async () => {
    const redisUrl = redis.url
    await redis.revive()
    const databaseUrl = `sqlite:${join(databaseDirectory(), 'keys.db')}`
    // All are announced, however long a busy machine takes: elsewhere, a revocation waits for a second.
    const after: Timers['after'] = (delayMs, run) =>
      systemTimers.after(delayMs === REVOCATION_TIMING.announceTimeoutMs ? delayMs * 30 : delayMs, run)
    const parts = { timers: { ...systemTimers, after } }
    const running = await startConsole({ databaseUrl, redisUrl, parts })
    await connected(running)
    const ids: string[] = []
    for (let index = 0; index < BURST; index++) ids.push((await issue(running)).id)
    const { received, heartbeatCpuMs, changes } = await listen()
    const answers = await Promise.all(ids.map(id => revoke(running, id)))
    expect(answers.filter(answer => answer.body.announced)).toHaveLength(BURST)
    // Some may be published twice, which does no harm.
    const revoked = () => changes().filter(change => change.version === 2)
    await until('all changes arrive', () => new Set(revoked().map(change => change.digest)).size === BURST)
    const seen = received.length
    await until('a heartbeat follows', () =>
      received.slice(seen).some(text => readMessage(text)?.kind === 'heartbeat'),
    )
    // In processor time of this thread, which runs the console: other programs on the machine do not count.
    const gaps = heartbeatCpuMs.slice(1).map((atMs, index) => atMs - (heartbeatCpuMs[index] ?? 0))
    expect(Math.max(0, ...gaps)).toBeLessThan(1000)
  })

  test('a lookup by a gateway restores a record that Redis has lost', async () => {
    const running = await started()
    const { id, digest } = await issue(running)
    const client = redis.client()
    await client.flushall()
    expect((await running.send('GET', `/internal/v1/keys/${digest}`)).status).toBe(200)
    await until('the record is back', () => grantIn(client, digest))
    expect(await grantIn(client, digest)).toMatchObject({ id, version: 1 })
  })

  test('a lookup replaces a forged record with that of the registry', async () => {
    const running = await started()
    const { digest } = await issue(running)
    const client = redis.client()
    const forged = ((await client.get(recordKeyName(digest))) ?? '').replace('ws_1', 'ws_2')
    await client.set(recordKeyName(digest), forged)
    await running.send('GET', `/internal/v1/keys/${digest}`)
    await until('the record is good again', () => grantIn(client, digest))
    expect((await grantIn(client, digest))?.workspaceId).toBe('ws_1')
  })
})

describe('without Redis for a while', () => {
  test('the console starts, is ready, issues and revokes, and reports changes as not announced', async () => {
    const running = await startConsole({ redisUrl: redis.url })
    const { id } = await issue(running)
    const { status, body } = await revoke(running, id)
    expect({ status, announced: body.announced }).toEqual({ status: 200, announced: false })
    expect(await running.health()).toEqual({ database: 'ok', announcer: 'down' })
    const { values } = await running.metrics.redisCommands.get()
    const outcomes = ['ok', 'timeout', 'error', 'unavailable']
    for (const labels of ['eval', 'publish'].flatMap(command =>
      outcomes.map(outcome => ({ command, outcome })),
    ))
      expect(values).toContainEqual({ labels, value: 0 })
  })

  test('changes made meanwhile are announced in order once Redis is up', async () => {
    const running = await startConsole({ redisUrl: redis.url })
    const { id, digest } = await issue(running)
    await revoke(running, id)
    await redis.revive()
    const client = redis.client()
    const grant = await until('the record is there', () => grantIn(client, digest))
    expect(grant).toMatchObject({ version: 2, revokedAtMs: expect.any(Number) })
    await until('the answer says so', async () => (await revoke(running, id)).body.announced)
  })

  test('no heartbeat is sent while a revocation is unannounced, although Redis would publish it', async () => {
    await redis.revive()
    const running = await startConsole({ redisUrl: redis.url })
    await connected(running)
    const { id, digest } = await issue(running)
    const { received, heartbeats, changes } = await listen()
    await until('a heartbeat arrives', () => heartbeats() > 0)
    // Writes are refused from here on, publishing is not: as by a replica, or a full disk.
    await redis.client().config('SET', 'maxmemory', '1')
    const { body } = await revoke(running, id)
    expect(body.announced).toBe(false)
    const before = heartbeats()
    await until('it is noticed', async () => (await running.health()).announcer === 'failed')
    const refused = async () => /errorstat_OOM:count=(\d+)/.exec(await redis.client().info('errorstats'))?.[1]
    await until('several attempts were made', async () => Number((await refused()) ?? 0) >= 4)
    expect(changes()).toEqual([])
    // One may have been on its way before the change was a quarter of a second old.
    expect(heartbeats()).toBeLessThanOrEqual(before + 1)
    const silentFrom = received.length
    await redis.client().config('SET', 'maxmemory', '0')
    await until('a heartbeat arrives again', () => received.length > silentFrom + 1)
    const kinds = received.slice(silentFrom).map(text => readMessage(text))
    expect(kinds[0]).toMatchObject({ kind: 'change', digest, version: 2 })
    expect(kinds[1]).toMatchObject({ kind: 'heartbeat' })
  })

  test('a frozen Redis delays a revocation for at most a second, and receives it afterwards', async () => {
    const running = await started()
    const client = redis.client()
    const { status, body, tookMs } = await measured({
      what: 'a revocation while Redis is frozen',
      pids: () => [process.pid],
      measure: async () => {
        const { id, digest } = await issue(running)
        redis.freeze()
        const beganMs = performance.now()
        const answer = await revoke(running, id)
        const revokedMs = performance.now()
        redis.thaw()
        await until('the record is revoked', async () => (await grantIn(client, digest))?.version === 2)
        return { ...answer, tookMs: revokedMs - beganMs }
      },
      missedByMs: revoked => revoked.tookMs - REVOKED_WITHIN_MS,
    })
    expect({ status, announced: body.announced }).toEqual({ status: 200, announced: false })
    expect(tookMs).toBeLessThan(REVOKED_WITHIN_MS)
  })

  test('a command that a frozen Redis does not answer in time is counted as one without an answer', async () => {
    const running = await started()
    const { id } = await issue(running)
    const counted = (outcome: string) =>
      metricValue(running.metrics.redisCommands, { command: 'eval', outcome })
    redis.freeze()
    await revoke(running, id)
    await until('it is counted', async () => (await counted('timeout')) > 0)
    expect(await counted('error')).toBe(0)
    redis.thaw()
  })

  test('the log has one line for the lost connection and one for the restored one', async () => {
    const running = await startConsole({ redisUrl: redis.url })
    const count = (text: string) => running.log.filter(line => String(line['msg']).includes(text)).length
    await until('it is noticed', () => count('redis connection failed') > 0)
    await redis.revive()
    await connected(running)
    await redis.kill()
    await until('it is noticed again', () => count('redis connection failed') > 1)
    await redis.revive()
    await connected(running)
    expect(count('redis connection failed')).toBe(2)
    expect(count('redis connected')).toBe(2)
  })
})

/** A warning, except that heartbeats wait for the first connection and what follows it. */
function isUnexpected({ level, reason }: Readonly<Record<string, unknown>>): boolean {
  return Number(level) > 30 && reason !== 'not_connected' && reason !== 'not_caught_up'
}

describe('signing in to Redis', () => {
  const user = 'postern-console'
  const password = 'hunter2-hunter2'
  const rights = [
    '~postern:key:*',
    '&postern:keys:changed',
    '-@all',
    '+getrange',
    '+set',
    '+eval',
    '+publish',
  ]

  test('works for a user with the least rights', async () => {
    await redis.revive()
    await redis.client().call('ACL', 'SETUSER', user, 'on', `>${password}`, ...rights)
    const redisUrl = redis.url.replace('//', `//${user}:${password}@`)
    const running = await startConsole({ redisUrl })
    await connected(running)
    const { id } = await issue(running)
    expect((await revoke(running, id)).body.announced).toBe(true)
    expect(running.log.filter(isUnexpected)).toEqual([])
  })

  test('with a wrong password is logged as rejected, without the password', async () => {
    await redis.revive()
    const redisUrl = redis.url.replace('//', `//${user}:${password}@`)
    const running = await startConsole({ redisUrl })
    await until('the refusal is logged', () => JSON.stringify(running.log).includes('WRONGPASS'))
    const { id } = await issue(running)
    expect((await revoke(running, id)).body.announced).toBe(false)
    expect(JSON.stringify(running.log)).not.toContain(password)
  })
})

describe('a crash', () => {
  test('between commit and announcement loses nothing: the next console announces the change', async () => {
    const databaseUrl = `sqlite:${join(databaseDirectory(), 'keys.db')}`
    // A console that never gets to announcing: to the database this is what a crash looks like.
    const first = await startConsole({ databaseUrl, redisUrl: redis.url })
    const { id, digest } = await issue(first)
    await revoke(first, id)
    await first.stop()
    await redis.revive()
    const second = await startConsole({ databaseUrl, redisUrl: redis.url })
    const client = redis.client()
    const grant = await until('the record is there', () => grantIn(client, digest))
    expect(grant).toMatchObject({ id, version: 2 })
    await until('the answer says so', async () => (await revoke(second, id)).body.announced)
  })
})

test('in one process, without Redis, the gateway receives changes and heartbeats directly', async () => {
  const received: string[] = []
  const announcer = createInProcessAnnouncer(text => void received.push(text))
  const running = await startConsole({ parts: { announcer } })
  const { id, digest } = await issue(running)
  expect((await revoke(running, id)).body.announced).toBe(true)
  const changes = received.map(readMessage).filter(message => message?.kind === 'change')
  expect(changes).toMatchObject([
    { digest, version: 1 },
    { digest, version: 2 },
  ])
  await until('a heartbeat arrives', () => received.some(text => readMessage(text)?.kind === 'heartbeat'))
})

test('stop may be called twice, and nothing is published afterwards', async () => {
  const running = await started()
  await Promise.all([running.stop(), running.stop()])
  const { received } = await listen()
  await running.stop()
  expect(received).toEqual([])
})

test('a console that stops right after a response leaves nothing in the outbox', async () => {
  const databaseUrl = `sqlite:${join(databaseDirectory(), 'keys.db')}`
  await redis.revive()
  const running = await startConsole({ databaseUrl, redisUrl: redis.url })
  const { heartbeats } = await listen()
  // Until it knows its Redis, it announces and keeps what it announces.
  await until('the console knows its Redis', () => heartbeats() > 0)
  const { id } = await issue(running)
  await revoke(running, id)
  await running.stop()
  expect(running.log.filter(isUnexpected)).toEqual([])
  const { reader, close } = await openDatabase(databaseUrl)
  expect(await reader.selectFrom('outbox').selectAll().execute()).toEqual([])
  await close()
})

test('a console without a signing secret does not start, and names the setting', async () => {
  const { consoleConfig } = await import('../support/console.ts')
  const config = consoleConfig({})
  const keys = { ...config.keys, signingSecrets: [] }
  await expect(startConsole({ parts: { config: { ...config, keys } } })).rejects.toThrow(
    /keys\.signingSecrets/,
  )
})
