import { beforeEach, expect, test } from 'vitest'
import type { Lookup } from '../../src/domain/key/key-record.ts'
import { InFlightLookups } from '../../src/keys/lookup-chain.ts'
import { digestNo } from '../support/key-records.ts'
import { settled } from '../support/until.ts'

const KEY = digestNo(1)
const NOW = { nowMs: 1_000, isConnected: true, epoch: 1 }

let lookups: InFlightLookups
beforeEach(() => {
  lookups = new InFlightLookups(4)
})

/** Begins a lookup. @returns a function that ends it */
function begin(digest: string): () => Promise<void> {
  const { promise, resolve } = Promise.withResolvers<Lookup | null>()
  lookups.begin(digest, { began: NOW, generation: 0 }, () => promise)
  return () => {
    resolve(null)
    return settled()
  }
}

test('lookups in flight are limited, and each that ends makes room for another', async () => {
  const states: unknown[] = []
  const note = () => states.push([lookups.isHalfFull, lookups.isFull])
  const ends: (() => Promise<void>)[] = []
  for (let number = 1; number <= 4; number++) {
    ends.push(begin(digestNo(number)))
    note()
  }
  for (const end of ends) {
    await end()
    note()
  }
  const free = [false, false]
  const half = [true, false]
  expect(states).toEqual([free, half, half, [true, true], half, half, free, free])
})

test('a lookup that a change superseded ends without ending the later one of the same key', async () => {
  const endEarly = begin(KEY)
  lookups.supersede(KEY)
  expect(lookups.find(KEY, NOW)).toBeNull()
  const endLate = begin(KEY)
  const late = lookups.find(KEY, NOW)
  await endEarly()
  expect(lookups.find(KEY, NOW)).toBe(late)
  expect(late?.isSuperseded).toBe(false)
  await endLate()
  expect(lookups.find(KEY, NOW)).toBeNull()
})
