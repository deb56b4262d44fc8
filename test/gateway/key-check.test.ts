import { beforeEach, describe, expect, test } from 'vitest'
import type { Prepare } from '../../src/config/reloadable.ts'
import type { Config } from '../../src/config/schema.ts'
import { createKeyCheck, type KeyCheck } from '../../src/gateway/key-check.ts'
import { digestNo } from '../support/key-records.ts'
import { KeyStoreWorld } from '../support/key-store-world.ts'
import { settled } from '../support/until.ts'

const KEY = digestNo(1)
// All of a configuration that is read here.
const CONFIG = { keys: { format: 'signed', prefix: 'wsk_', signingSecrets: [] } } as unknown as Config

let world: KeyStoreWorld
let check: KeyCheck
let prepare: Prepare<Config>

beforeEach(() => {
  world = new KeyStoreWorld()
  world.startHearing()
  world.inRedis.set(KEY, 1)
  const followers: Prepare<Config>[] = []
  const follow = (told: Prepare<Config>) => followers.push(told)
  prepare = settings => {
    const ready = followers.map(told => told(settings))
    return () => {
      for (const putToUse of ready) putToUse()
    }
  }
  check = createKeyCheck(CONFIG, { follow, clock: world.clock, keys: world.keys })
  world.clock.advance(1)
})

describe('the MAC of a key counts as checked', () => {
  test('once the key was looked up', async () => {
    expect(check.isProven(KEY)).toBe(false)
    await world.get(KEY)
    expect(check.isProven(KEY)).toBe(true)
  })

  test('until its record is forgotten', async () => {
    await world.get(KEY)
    world.announce(KEY, 2)
    expect(check.isProven(KEY)).toBe(false)
  })

  test('of no key that nobody has issued, however often it is tried', async () => {
    const unknown = digestNo(2)
    await world.get(unknown)
    await world.get(unknown)
    expect(check.isProven(unknown)).toBe(false)
  })
})

describe('a signing secret that is taken away ends the keys that it signed, though memory knows them', () => {
  test('from the moment on at which the new secrets are put to use', async () => {
    await world.get(KEY)
    prepare(CONFIG)()
    expect(check.isProven(KEY)).toBe(false)
    world.clock.advance(1)
    await world.get(KEY)
    expect(check.isProven(KEY)).toBe(false)
  })

  test('also those that were looked up between the reading of the new secrets and their use', async () => {
    const putToUse = prepare(CONFIG)
    world.clock.advance(1)
    await world.get(KEY)
    world.clock.advance(1)
    putToUse()
    expect(check.isProven(KEY)).toBe(false)
  })

  test('also those whose look-up was under way', async () => {
    world.redis.stalls()
    const lookup = world.get(KEY)
    world.clock.advance(1)
    prepare(CONFIG)()
    world.clock.advance(1)
    world.redis.release()
    expect(await lookup).toMatchObject({ kind: 'found' })
    expect(check.isProven(KEY)).toBe(false)
  })

  test('also those whose look-up was under way, and had to be tried again because the key changed', async () => {
    world.redis.stalls()
    const lookup = world.get(KEY)
    world.clock.advance(1)
    prepare(CONFIG)()
    world.clock.advance(1)
    world.inRedis.set(KEY, 2)
    world.announce(KEY, 2)
    world.redis.release()
    await settled()
    world.redis.release()
    expect(await lookup).toMatchObject({ kind: 'found', grant: { version: 2 } })
    expect(check.isProven(KEY)).toBe(false)
  })

  test('but no others: whoever shows the MAC again is proven by the next look-up', async () => {
    prepare(CONFIG)()
    world.clock.advance(1)
    await world.get(KEY)
    expect(check.isProven(KEY)).toBe(true)
  })
})
