import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startHeartbeats } from '../../src/console/announcing/heartbeats.ts'
import { Outbox } from '../../src/console/announcing/outbox.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { CHANGES_CHANNEL, decodeRecord, deriveRecordKey, recordKeyName } from '../../src/domain/wire.ts'
import { SIGNING_SECRET, startConsole } from '../support/console.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { messagesOf, readMessage } from '../support/messages.ts'
import { RedisServer } from '../support/redis-server.ts'
import { insert, openRepository, type Repository, replace } from '../support/repository.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'
import { until } from '../support/until.ts'

const MINUTE_MS = 60_000

describe('after Redis reconnects', () => {
  let repository: Repository
  let announcer: ScriptedAnnouncer
  let outbox: Outbox
  let stopHeartbeats: () => void
  const timers = new ManualTimers()
  const clock = { wallMs: () => NOW_MS + timers.nowMs, monotonicMs: () => timers.nowMs }

  beforeEach(async () => {
    repository = await openRepository('sqlite::memory:', clock)
    announcer = new ScriptedAnnouncer()
    const messages = messagesOf(clock)
    const parts = { repository, announcer, messages, clock, timers, logger: silentLogger }
    outbox = new Outbox({ ...parts, random: () => 0 })
    stopHeartbeats = startHeartbeats({ ...parts, outbox })
  })
  afterEach(async () => {
    stopHeartbeats()
    await outbox.stop()
    await repository.close()
  })

  const letPass = async (ms: number) => {
    timers.advance(ms)
    for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
  }
  const tell = async (key: StoredKey, note: Awaited<ReturnType<typeof insert>>) => {
    expect(note !== null && (await outbox.announce([key], [note]))).toBe(true)
  }
  const issueAndRevoke = async () => {
    const key = someKey()
    await tell(key, await insert(repository, key))
    await tell(revoked(key), await replace(repository, revoked(key)))
    return key
  }
  const reconnect = () => {
    announcer.published.length = 0
    announcer.puts.length = 0
    announcer.set('down')
    announcer.set('ready')
  }
  const messages = () => announcer.published.map(readMessage)

  test('recent revocations are announced again before heartbeats resume', async () => {
    const key = await issueAndRevoke()
    await letPass(60 * MINUTE_MS)
    reconnect()
    await letPass(300)
    await letPass(300)
    expect(announcer.puts).toEqual([revoked(key)])
    expect(messages().map(message => message?.kind)).toEqual(
      ['change', 'heartbeat', 'heartbeat'].slice(0, messages().length),
    )
    expect(messages()[0]).toMatchObject({ kind: 'change', digest: key.digest, version: 2 })
    expect(messages().length).toBeGreaterThan(1)
  })

  test('what was announced in the last seconds is announced again if another console stops, and no heartbeat is sent before', async () => {
    const earlier = await issueAndRevoke()
    await letPass(11_000)
    const latest = await issueAndRevoke()
    await letPass(300)
    announcer.published.length = 0
    announcer.puts.length = 0
    const { requeueChangesSince } = repository
    const isKnown = Promise.withResolvers<void>()
    repository.requeueChangesSince = async sinceMs => {
      await isKnown.promise
      await requeueChangesSince(sinceMs)
    }
    announcer.otherIsSilent()
    await letPass(300)
    expect(messages()).toEqual([])
    isKnown.resolve()
    await letPass(300)
    await letPass(300)
    expect(announcer.puts).toEqual([revoked(latest)])
    expect(announcer.puts).not.toContainEqual(revoked(earlier))
    expect(messages()[0]).toMatchObject({ kind: 'change', digest: latest.digest })
    expect(messages().at(-1)).toMatchObject({ kind: 'heartbeat' })
  })

  test('keys that were only issued are not announced again: gateways look them up at the key service', async () => {
    const key = someKey()
    await tell(key, await insert(repository, key))
    reconnect()
    await letPass(300)
    expect(announcer.puts).toEqual([])
  })

  test('changes from more than 65 minutes before Redis was last alive are not announced again', async () => {
    await issueAndRevoke()
    await letPass(66 * MINUTE_MS)
    await letPass(300)
    reconnect()
    await letPass(300)
    expect(announcer.puts).toEqual([])
  })

  test('the length of the outage does not count towards the 65 minutes', async () => {
    const key = await issueAndRevoke()
    await letPass(60 * MINUTE_MS)
    announcer.set('down')
    for (let minutes = 0; minutes < 60; minutes++) await letPass(10 * MINUTE_MS)
    reconnect()
    await letPass(300)
    expect(announcer.puts).toEqual([revoked(key)])
  })

  test('no heartbeat is sent until all of them are announced, also if Redis rejects them', async () => {
    const key = await issueAndRevoke()
    announcer.refusesWrites = true
    reconnect()
    for (let period = 0; period < 20; period++) await letPass(300)
    expect(announcer.published).toEqual([])
    announcer.refusesWrites = false
    for (let period = 0; period < 20; period++) await letPass(300)
    expect(messages()[0]).toMatchObject({ kind: 'change', digest: key.digest })
    expect(messages().at(-1)).toMatchObject({ kind: 'heartbeat' })
  })

  test('no heartbeat is sent while another console still announces them', async () => {
    const key = await issueAndRevoke()
    announcer.set('down')
    await repository.requeueChangesSince(0)
    repository.claimChanges = async () => []
    announcer.published.length = 0
    announcer.set('ready')
    await letPass(200)
    await letPass(100)
    expect(messages()).toEqual([])
    await repository.deletePendingChanges([{ digest: key.digest, version: 2, atMs: NOW_MS }])
    await letPass(300)
    await letPass(300)
    expect(messages().map(message => message?.kind)).toContain('heartbeat')
  })

  test('recovery starts again if the connection is lost during it', async () => {
    const key = await issueAndRevoke()
    const { promise, resolve } = Promise.withResolvers<void>()
    reconnect()
    announcer.stalled = promise
    await letPass(0)
    announcer.set('down')
    announcer.set('ready')
    announcer.stalled = null
    resolve()
    await letPass(300)
    expect(announcer.puts).toEqual([revoked(key), revoked(key)])
  })

  test('nothing is announced twice if the connection is only slow', async () => {
    await issueAndRevoke()
    announcer.puts.length = 0
    for (let period = 0; period < 10; period++) await letPass(300)
    expect(announcer.puts).toEqual([])
  })
})

/** On the channel of changes, marks the moment of a failover in the order of messages. */
const FAILOVER = 'failover'

test.each([
  ['', false],
  [' behind connections that stay', true],
])(
  'a real Redis that lost a revocation in a failover%s gets it back before gateways receive a heartbeat',
  async (_, areKept) => {
    const redis = await RedisServer.start()
    try {
      const running = await startConsole({ redisUrl: redis.url })
      await until('it is connected', async () => (await running.health()).announcer === 'ready')
      const keys = '/admin/v1/workspaces/ws_1/keys'
      const { body } = await running.send('POST', keys, { name: 'a', scopes: ['files:read'] })
      const name = recordKeyName(digestKey(body.secret))
      const names = await redis.client().keys('postern:key:*')
      const before = await redis.client().mget(names)
      const old = names.flatMap((name, index) => [name, before[index] ?? ''])
      expect((await running.send('POST', `/admin/v1/keys/${body.key.id}/revoke`)).body.announced).toBe(true)
      const subscriber = redis.client()
      const received: string[] = []
      const readings: Promise<void>[] = []
      let hasFailedOver = false
      const note = async (text: string) => {
        const held = await redis.client().get(name)
        const decoded = decodeRecord(held ?? '', digestKey(body.secret), [deriveRecordKey(SIGNING_SECRET)])
        received.push(`${readMessage(text)?.kind} ${decoded.ok && decoded.grant.version}`)
      }
      subscriber.on('message', (_, text: string) => {
        // A message from before the failover may be read after it, with the record of the new primary.
        if (hasFailedOver && text !== FAILOVER) readings.push(note(text))
        if (text === FAILOVER) hasFailedOver = true
      })
      await subscriber.subscribe(CHANGES_CHANNEL)
      // What a replica that lagged behind holds when it takes over, on the connections that are made to it then, or to a proxy before.
      const failover = redis.client().multi().mset(old).publish(CHANGES_CHANNEL, FAILOVER)
      await (areKept ? failover : failover.call('CLIENT', 'KILL', 'TYPE', 'normal')).exec()
      await until('a heartbeat arrives', () => received.some(message => message.startsWith('heartbeat')))
      // A message that arrives meanwhile is read before Redis stops.
      subscriber.disconnect()
      await Promise.all(readings)
      expect(
        received.filter(message => message.startsWith('heartbeat') && message !== 'heartbeat 2'),
      ).toEqual([])
    } finally {
      await redis.stop()
    }
  },
)
