import { setFlagsFromString } from 'node:v8'
import { expect, test } from 'vitest'
import { ChurningMap } from '../../src/domain/churning-map.ts'
import { ALL_START_YOUNG } from '../../src/run/settle-heap.ts'
import { collectGarbage } from '../support/expose-gc.ts'

interface Entries {
  set(key: string, value: object): unknown
  delete(key: string): boolean
}

// As the program has it: values that outlived collections in one Map would be made among the old for the other.
setFlagsFromString(ALL_START_YOUNG)

const HELD = 64
const ALL = 20_000
const COLLECTED_AFTER = 2000

/** How many bytes are still there after `ALL` values have come and gone, when only young ones have been collected. */
function leftBy(entries: Entries): number {
  // Those there now are old from here on, the tables that they stand in included.
  for (let index = 0; index < HELD; index++) entries.set(`key ${index}`, {})
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let index = HELD; index < ALL; index++) {
    entries.set(`key ${index}`, { text: new Array(32).fill(index) })
    entries.delete(`key ${index - HELD}`)
    if (index % COLLECTED_AFTER === 0) collectGarbage({ type: 'minor' })
  }
  collectGarbage({ type: 'minor' })
  return process.memoryUsage().heapUsed - before
}

test('what came and went does not grow old, as it does with a Map of the language', () => {
  const ofMap = leftBy(new Map())
  const ofOurs = leftBy(new ChurningMap())
  expect(ofOurs).toBeLessThan(ofMap / 4)
})

test('however often it is renewed, it holds what was put into it and not taken out, in that order', () => {
  const map = new ChurningMap<number, string>()
  const model = new Map<number, string>()
  for (let key = 0; key < 10_000; key++) {
    map.set(key, `value ${key}`)
    model.set(key, `value ${key}`)
    const leaving = key % 3 === 0 ? key : key - 700
    expect(map.delete(leaving)).toBe(model.delete(leaving))
    expect(map.get(key)).toBe(model.get(key))
  }
  expect(map.size).toBe(model.size)
  expect([...map.entries()]).toEqual([...model.entries()])
  expect([...map.keys()]).toEqual([...model.keys()])
})
