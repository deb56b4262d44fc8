import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Announcement } from '../../../src/console/announcing/announcer.ts'
import { createRedisAnnouncer } from '../../../src/console/announcing/announcer.ts'
import { CHANGES_CHANNEL, recordKeyName } from '../../../src/domain/wire.ts'
import type { AnnouncingRedis } from '../../../src/redis/announcing-connection.ts'
import { WriteCounter } from '../../../src/redis/write-counter.ts'
import { recordOf } from '../../support/key-records.ts'
import { RedisServer } from '../../support/redis-server.ts'
import { runs } from '../../support/runs.ts'
import { until } from '../../support/until.ts'
import { Network } from './network.ts'
import { Process } from './process.ts'
import { Random } from './random.ts'
import { SimulatedRedis } from './redis-client.ts'
import { RedisSite } from './redis-site.ts'
import { Scheduler } from './scheduler.ts'
import { CONSOLE_SECRETS, redisSettings } from './settings.ts'

const DIGESTS = ['a', 'b', 'c'].map(letter => letter.repeat(64))
/** A real server deletes what has expired. */
const EXPIRES_AT_MS = Date.now() + 86_400_000
/** Of virtual time between two looks at whether all replies have arrived. */
const REPLY_MS = 10

let server: RedisServer
let replica: RedisServer
let subscriber: Redis
const published: string[] = []

beforeAll(async () => {
  server = await RedisServer.start()
  replica = await RedisServer.start()
  await replica.admin.replicaof(...addressOf(server))
  await until('the replica follows', async () =>
    (await replica.admin.info('replication')).includes('link_status:up'),
  )
  subscriber = new Redis(server.url)
  subscriber.on('message', (_channel, text) => published.push(text))
  await subscriber.subscribe(CHANGES_CHANNEL)
})
afterAll(async () => {
  subscriber.disconnect()
  await replica.stop()
  await server.stop()
})

function addressOf({ url }: RedisServer): [string, number] {
  const { hostname, port } = new URL(url)
  return [hostname, Number(port)]
}

/** What happens to Redis, by a console or by something else. */
type Act =
  | { readonly kind: 'announce'; readonly entries: readonly Entry[] }
  | { readonly kind: 'overwrite'; readonly digest: string; readonly text: string }

interface Entry {
  readonly digest: string
  readonly version: number
  readonly name: string
  readonly messages: readonly string[]
}

const digest = fc.constantFrom(...DIGESTS)
const entry: fc.Arbitrary<Entry> = fc.record({
  digest,
  version: fc.integer({ min: 1, max: 6 }),
  name: fc.constantFrom('one', 'other'),
  messages: fc.array(fc.string({ maxLength: 8 }), { maxLength: 3 }),
})
/** Nothing, another format, and what says that it is newer. */
const otherText = fc.oneof(
  fc.constant(''),
  fc.string({ maxLength: 30 }),
  fc.integer({ min: 0, max: 12 }).map(version => `{"version":${version},"mac":"forged"}`),
  fc.constantFrom('{"version":"7"}', '"version":', '{"version": 9}', '{"version":3,"more":{"version":8}}'),
)
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('announce' as const),
      entries: fc.array(entry, { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('overwrite' as const), digest, text: otherText }) },
)

/** The same code of the program over the real server and over the simulated one. */
function createModel() {
  const scheduler = new Scheduler()
  const random = new Random(1)
  const network = new Network(scheduler, random)
  network.isCalm = true
  const site = new RedisSite({ scheduler, network, random }, 0, false)
  const settings = redisSettings(0, false)
  const console = new Process('console', scheduler, random)
  const client = new SimulatedRedis({
    process: console,
    site,
    random,
    find: site.finderOf(console),
    settings,
  })
  const messages: string[] = []
  const reader = new Process('reader', scheduler, random)
  const subscribed = new SimulatedRedis({
    process: reader,
    site,
    random,
    find: site.finderOf(reader),
    settings,
  })
  subscribed.on('message', (_channel, text) => messages.push(text))
  const settled = async <Result>(work: Promise<Result>): Promise<Result> => {
    let isSettled = false
    const end = work.finally(() => {
      isSettled = true
    })
    // A failure is for the caller, and must not count as unhandled before.
    end.catch(() => {})
    // Once more than needed, so that messages arrive too.
    do await scheduler.run(scheduler.nowMs + REPLY_MS)
    while (!isSettled)
    await scheduler.run(scheduler.nowMs + REPLY_MS)
    return await end
  }
  return { site, client, messages, subscribed, settled }
}

/** What of a connection announcing uses. */
function connectionOf(
  call: AnnouncingRedis['callBuffer'],
  publish: AnnouncingRedis['publish'],
): AnnouncingRedis {
  const used: Partial<AnnouncingRedis> = {
    status: 'ready',
    isOneServer: true,
    callBuffer: call,
    publish,
  }
  return used as AnnouncingRedis
}

const announcerOver = (connection: AnnouncingRedis) =>
  createRedisAnnouncer({ connection, recordKeys: CONSOLE_SECRETS.recordKeys, region: 'default' })

const announcementOf = ({ digest, version, name, messages }: Entry): Announcement => ({
  key: { digest, record: recordOf({ version, name, expiresAtMs: EXPIRES_AT_MS }) },
  messages,
})

const outcomeOf = (result: PromiseSettledResult<void>) =>
  result.status === 'fulfilled' ? 'announced' : String(result.reason.message).slice(0, 8)

/** The real server without entries, and a simulated one that is connected and subscribed like it. */
async function emptyServers() {
  await server.admin.flushall()
  published.length = 0
  const model = createModel()
  await model.settled(model.client.connect())
  await model.settled(model.subscribed.connect())
  await model.settled(model.subscribed.subscribe(''))
  return model
}

test('the simulated Redis runs the script that announces as a real one does', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 1, maxLength: 12 }), async acts => {
      const model = await emptyServers()
      const replies: unknown[] = []
      const modelReplies: unknown[] = []
      const real = announcerOver(
        connectionOf(
          async (command, ...values) => noted(replies, await server.admin.callBuffer(command, ...values)),
          (channel, text) => server.admin.publish(channel, text),
        ),
      )
      const simulated = announcerOver(
        connectionOf(
          async (command, script, count, ...values) =>
            noted(
              modelReplies,
              await model.client.callBuffer(command, String(script), Number(count), ...values),
            ),
          (channel, text) => model.client.publish(channel, text),
        ),
      )
      for (const each of acts) {
        if (each.kind === 'overwrite') {
          const key = recordKeyName(each.digest)
          if (each.text === '') await server.admin.del(key)
          else await server.admin.set(key, each.text)
          model.site.primary.set(key, each.text)
          continue
        }
        const announcements = each.entries.map(announcementOf)
        const results = await real.putAll(announcements)
        const modelResults = await model.settled(simulated.putAll(announcements))
        expect(modelResults.map(outcomeOf)).toEqual(results.map(outcomeOf))
      }
      expect(modelReplies).toEqual(replies)
      const keys = DIGESTS.map(recordKeyName)
      expect(keys.map(key => model.site.primary.textOf(key))).toEqual(
        (await server.admin.mget(keys)).map(text => text ?? ''),
      )
      await server.admin.publish(CHANGES_CHANNEL, END)
      await until('all messages have arrived', () => published.at(-1) === END)
      expect(model.messages).toEqual(published.slice(0, -1))
    }),
    { numRuns: runs(60, 1_500) },
  )
})

const END = 'the end of a run'

function noted<Reply>(replies: unknown[], reply: Reply): Reply {
  replies.push(JSON.parse(JSON.stringify(reply)))
  return reply
}

test('the simulated Redis runs the script that counts writes as a real one does', async () => {
  const model = await emptyServers()
  const [first, other] = [0, 1].map(
    () =>
      new WriteCounter({
        async evaluate(script, count, ...values) {
          const reply = await server.admin.callBuffer('eval', String(script), Number(count), ...values)
          const modelled = model.client.callBuffer('eval', String(script), Number(count), ...values)
          expect(await model.settled(modelled)).toEqual(reply)
          return reply
        },
        onLost: () => {},
        onOtherSilent: () => {},
      }),
  )
  const list = recordKeyName('written')
  let snapshot = ''
  for (let step = 0; step < 20; step++) {
    await first?.count(CHANGES_CHANNEL, `first ${step}`)
    if (step % 3 === 0) await other?.count(CHANGES_CHANNEL)
    if (step === 5) snapshot = model.site.primary.textOf(list)
    if (step === 10) {
      await server.admin.set(list, snapshot)
      model.site.primary.set(list, snapshot)
    }
    expect(model.site.primary.textOf(list)).toBe(await server.admin.get(list))
  }
  await server.admin.publish(CHANGES_CHANNEL, END)
  await until('all messages have arrived', () => published.at(-1) === END)
  expect(model.messages).toEqual(published.slice(0, -1))
  expect(model.messages).toHaveLength(19)
})

test('a replica refuses the script as the simulated one does', async () => {
  const simulated = createModel()
  simulated.site.primary.isReplica = true
  await simulated.settled(simulated.client.connect())
  const overReplica = announcerOver(
    connectionOf(
      (command, ...values) => replica.admin.callBuffer(command, ...values),
      (channel, text) => replica.admin.publish(channel, text),
    ),
  )
  const overModel = announcerOver(
    connectionOf(
      (command, script, count, ...values) =>
        simulated.client.callBuffer(command, String(script), Number(count), ...values),
      (channel, text) => simulated.client.publish(channel, text),
    ),
  )
  const announcements = [announcementOf({ digest: 'd'.repeat(64), version: 1, name: 'one', messages: ['m'] })]
  const [real] = await overReplica.putAll(announcements)
  const [model] = await simulated.settled(overModel.putAll(announcements))
  expect(real).toMatchObject({ status: 'rejected', reason: { message: expect.stringMatching(/^READONLY/) } })
  expect(model).toMatchObject({ status: 'rejected', reason: { message: expect.stringMatching(/^READONLY/) } })
})
