import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CHANGES_CHANNEL } from '../../src/domain/wire.ts'
import { scrape } from '../support/scrape.ts'
import { send } from '../support/steady-load.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

/** More than Redis keeps for a subscriber: `client-output-buffer-limit pubsub 32mb 8mb 60`. */
const LARGE_BYTES = 40_000_000
const PAGE = readFileSync(new URL('../../docs/redis.md', import.meta.url), 'utf8')

let world: World
let key: IssuedKey
beforeAll(async () => {
  world = await startWorld()
  const { admin } = world.redis
  await admin.call(
    'ACL',
    'SETUSER',
    'publisher',
    'on',
    '>password',
    `&${CHANGES_CHANNEL}`,
    '-@all',
    '+publish',
  )
  key = await world.issue()
})
afterAll(() => world.stop())

const metric = async (name: string) => (await scrape(world.gateway.urls.ops)).get(name) ?? 0
const isConnected = async () => (await metric('postern_key_invalidation_connected')) === 1

/** As a client that may only publish. @returns what Redis answers until it closes the connection, or to the message */
async function publishLarge(): Promise<string> {
  const socket = connect(world.redis.port, '127.0.0.1')
  let answers = ''
  socket.on('data', bytes => {
    answers += bytes.toString()
    if (/^:\d+\r\n/m.test(answers)) socket.end()
  })
  socket.on('error', () => {}) // Redis may close it in the middle of the message.
  socket.write('AUTH publisher password\r\n')
  const head = `*3\r\n$7\r\nPUBLISH\r\n$${CHANGES_CHANNEL.length}\r\n${CHANGES_CHANNEL}\r\n$${LARGE_BYTES}\r\n`
  socket.write(head)
  socket.write(Buffer.alloc(LARGE_BYTES, 'a'))
  socket.write('\r\n')
  await new Promise(resolve => socket.once('close', resolve))
  return answers
}

test('a message above the output limit of Redis disconnects gateways, and makes no key unavailable', async () => {
  await until('the gateway is connected', isConnected)
  const before = await metric('postern_redis_reconnects_total')
  expect(await publishLarge()).toMatch(/:1\r\n$/)
  await until('Redis closes the subscription', async () => {
    expect(await send(world.gateway.urls.gateway, key.secret)).toBe('200')
    return (await metric('postern_redis_reconnects_total')) > before
  })
  await until('the gateway is connected again', isConnected)
  // Records are read over a connection that is younger than the subscription's.
  await until('both connections are new', async () => {
    return (await metric('postern_redis_reconnects_total')) >= before + 2
  })
})

test('with the limit that docs/redis.md sets, Redis closes the connection of the publisher instead', async () => {
  const [, name = '', value = ''] = /^(proto-max-bulk-len) (\S+)$/m.exec(PAGE) ?? []
  await world.redis.admin.config('SET', name, value)
  await until('the gateway is connected', isConnected)
  const before = await metric('postern_redis_reconnects_total')
  for (let message = 0; message < 10; message++) {
    expect(await publishLarge()).not.toMatch(/^:/m)
    expect(await send(world.gateway.urls.gateway, key.secret)).toBe('200')
  }
  expect(await metric('postern_redis_reconnects_total')).toBe(before)
  // Records and changes are as small as before.
  const other = await world.issue()
  expect(await send(world.gateway.urls.gateway, other.secret)).toBe('200')
  await world.revoke(other.id)
  await until(
    'it is rejected',
    async () => (await send(world.gateway.urls.gateway, other.secret)) === 'key_revoked',
  )
})
