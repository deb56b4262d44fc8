import { expect, test } from 'vitest'
import { digestNo } from '../support/key-records.ts'
import { KeyStoreWorld, type WorldOptions } from '../support/key-store-world.ts'
import { settled } from '../support/until.ts'

const KEY = digestNo(1)
const OTHER = digestNo(2)
const ATTACKER = '192.0.2.66'
const CLIENT = '192.0.2.1'
const LIMITED = { kind: 'limited' }

function worldWith(perSecond: number, perAddress: number, options: WorldOptions = {}): KeyStoreWorld {
  const world = new KeyStoreWorld({ unsigned: { perSecond, perAddress }, ...options })
  world.connect()
  return world
}

let invented = 1_000_000
/** Sends keys that do not exist. @returns how many of them were looked up */
async function flood(world: KeyStoreWorld, requests: number, addressOf = () => ATTACKER): Promise<number> {
  let lookedUp = 0
  for (let sent = 0; sent < requests; sent++) {
    const lookup = await world.get(digestNo(invented++), addressOf())
    if (lookup.kind === 'absent') lookedUp++
    else expect(lookup).toEqual(LIMITED)
  }
  return lookedUp
}

test('unknown keys without a MAC cost at most the configured lookups a second', async () => {
  const world = worldWith(1_000, 20)
  expect(await flood(world, 100)).toBe(20)
  world.advanceConnected(500)
  expect(await flood(world, 100)).toBe(10)
  expect([world.redis.asked, world.keyService.asked]).toEqual([30, 30])
})

test('many addresses together cost at most the lookups of the gateway', async () => {
  const world = worldWith(50, 20)
  let address = 0
  expect(await flood(world, 1_000, () => `198.51.100.${address++ % 250}`)).toBe(50)
})

test('the addresses of one IPv6 network count as one client', async () => {
  const world = worldWith(1_000, 20)
  let address = 0
  expect(await flood(world, 100, () => `2001:db8:1:2::${(address++).toString(16)}`)).toBe(20)
  expect(await flood(world, 1, () => '2001:db8:1:3::1')).toBe(1)
})

test('a client that was limited because of others uses up nothing: it is verified as soon as the gateway may look up again', async () => {
  const world = worldWith(10, 1)
  world.inRedis.set(KEY, 1)
  let address = 0
  await flood(world, 20, () => `198.51.100.${address++}`)
  expect(await world.get(KEY, CLIENT)).toEqual(LIMITED)
  world.advanceConnected(200)
  expect(await world.get(KEY, CLIENT)).toMatchObject({ kind: 'found' })
})

test('a client at another address is verified while a flood is limited', async () => {
  const world = worldWith(1_000, 20)
  world.inRedis.set(KEY, 1)
  await flood(world, 100)
  expect(await world.get(KEY, ATTACKER)).toEqual(LIMITED)
  expect(await world.get(KEY, CLIENT)).toMatchObject({ kind: 'found', tier: 'redis' })
})

test('keys with a MAC are looked up however many others are limited', async () => {
  const world = worldWith(1, 1)
  world.inRedis.set(KEY, 1)
  await flood(world, 100)
  expect(await world.get(KEY)).toMatchObject({ kind: 'found', tier: 'redis' })
})

test('a key that is in memory stays usable, and is verified again after its time to live', async () => {
  const world = worldWith(1, 1, { ttlMs: 10_000 })
  world.inRedis.set(KEY, 1)
  await world.get(KEY, ATTACKER)
  await flood(world, 10)
  expect(await world.get(KEY, ATTACKER)).toMatchObject({ kind: 'found', tier: 'memory' })
  world.advanceConnected(10_500)
  await flood(world, 10)
  expect(await world.get(KEY, ATTACKER)).toMatchObject({ kind: 'found', tier: 'redis' })
})

test('keys that exist use up no budget: a gateway that starts verifies all of them', async () => {
  const world = worldWith(10, 10)
  const digests = Array.from({ length: 500 }, (_, number) => digestNo(10_000 + number))
  for (const digest of digests) {
    world.inRedis.set(digest, 1)
    expect(await world.get(digest, CLIENT)).toMatchObject({ kind: 'found' })
  }
})

test('an unknown key that is repeated costs one lookup until it is forgotten', async () => {
  const world = worldWith(1_000, 1, { absentTtlMs: 5_000 })
  for (let request = 0; request < 10; request++)
    expect(await world.get(KEY, CLIENT)).toMatchObject({ kind: 'absent' })
  expect(world.keyService.asked).toBe(1)
})

test('an unknown key that was forgotten uses the budget again', async () => {
  const world = worldWith(1_000, 1, { absentTtlMs: 100 })
  expect(await world.get(KEY, CLIENT)).toMatchObject({ kind: 'absent' })
  world.advanceConnected(100)
  expect(await world.get(KEY, CLIENT)).toEqual(LIMITED)
  expect(world.keyService.asked).toBe(1)
})

test('a request joins a lookup in flight without using the budget', async () => {
  const world = worldWith(1, 1)
  world.redis.stalls()
  world.inRedis.set(KEY, 1)
  const lookups = [world.get(KEY, CLIENT), world.get(KEY, CLIENT)]
  await settled()
  world.redis.release()
  for (const lookup of lookups) expect(await lookup).toMatchObject({ kind: 'found' })
})

test('while a store stalls, keys without a MAC take at most half of the lookups in flight', async () => {
  const world = worldWith(1_000, 1_000, { maxInFlight: 10 })
  world.redis.stalls()
  world.inRedis.set(OTHER, 1)
  const pending = Array.from({ length: 5 }, () => world.get(digestNo(invented++), ATTACKER))
  await settled()
  expect(await world.get(digestNo(invented++), CLIENT)).toEqual(LIMITED)
  const signed = world.get(OTHER)
  await settled()
  for (let lookup = 0; lookup < 6; lookup++) world.redis.release()
  expect(await signed).toMatchObject({ kind: 'found' })
  await Promise.all(pending)
})

test('lookups that fail use the budget up, so that a flood does not hit a store that recovers', async () => {
  const world = worldWith(5, 5)
  world.allFail()
  for (let lookup = 0; lookup < 5; lookup++)
    expect(await world.get(digestNo(invented++), ATTACKER)).toEqual({ kind: 'unknown' })
  expect(await world.get(digestNo(invented++), ATTACKER)).toEqual(LIMITED)
})
