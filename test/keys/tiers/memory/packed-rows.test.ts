import fc from 'fast-check'
import { expect, test } from 'vitest'
import { NO_ROW, PackedRows } from '../../../../src/keys/tiers/memory/packed-rows.ts'
import { digestNo } from '../../../support/key-records.ts'

const MAX_ROWS = 5
const DIGESTS = Array.from({ length: 12 }, (_, number) => digestNo(number))

/** What rows must do, said with a `Map`: its order is the order of use. */
class Model {
  readonly values = new Map<string, number>()
  readonly evicted: number[] = []

  put(digest: string, value: number): void {
    this.values.delete(digest)
    if (this.values.size === MAX_ROWS) {
      const [oldest] = this.values
      if (oldest !== undefined) {
        this.evicted.push(oldest[1])
        this.values.delete(oldest[0])
      }
    }
    this.values.set(digest, value)
  }

  touch(digest: string): void {
    const value = this.values.get(digest)
    if (value !== undefined) this.put(digest, value)
  }
}

type Step = { do: 'put' | 'touch' | 'remove'; digest: string; value: number } | { do: 'clear' }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.record({
      do: fc.constantFrom('put', 'put', 'touch', 'remove'),
      digest: fc.constantFrom(...DIGESTS),
      value: fc.nat(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('clear') }) },
)

function valuesIn(rows: PackedRows): [string, number][] {
  return DIGESTS.flatMap(digest => {
    const row = rows.find(digest)
    return row === NO_ROW ? [] : [[digest, rows.number(row, 0)]]
  })
}

/** @returns the digests, the one used longest ago first */
function takeAll(rows: PackedRows): string[] {
  const digests: string[] = []
  for (let row = rows.oldest; row !== NO_ROW; row = rows.oldest) {
    digests.push(rows.digestOf(row))
    rows.remove(row)
  }
  expect(rows.size).toBe(0)
  return digests
}

test('rows hold what was put under their digests, and of too many the one used longest ago makes room', () => {
  let evictions = 0
  const property = fc.property(fc.array(step, { maxLength: 200, size: 'max' }), steps => {
    const evicted: number[] = []
    const rows: PackedRows = new PackedRows({ maxRows: MAX_ROWS, numbers: 1, bytes: 0 }, row =>
      evicted.push(rows.number(row, 0)),
    )
    const model = new Model()
    for (const next of steps) take(next, rows, model)
    expect(new Map(valuesIn(rows))).toEqual(new Map([...model.values].sort()))
    expect(rows.size).toBe(model.values.size)
    expect(evicted).toEqual(model.evicted)
    expect(takeAll(rows)).toEqual([...model.values.keys()])
    evictions += evicted.length
  })
  fc.assert(property, { numRuns: 300 })
  expect(evictions).toBeGreaterThan(100)
})

function take(step: Step, rows: PackedRows, model: Model): void {
  if (step.do === 'clear') {
    rows.clear()
    model.values.clear()
    return
  }
  const { digest, value } = step
  if (step.do === 'put') {
    rows.setNumber(rows.claim(digest), 0, value)
    model.put(digest, value)
    return
  }
  const row = rows.find(digest)
  expect(row === NO_ROW).toBe(!model.values.has(digest))
  if (row === NO_ROW) return
  if (step.do === 'touch') {
    rows.touch(row)
    model.touch(digest)
  } else {
    rows.remove(row)
    model.values.delete(digest)
  }
}

test('digests that begin alike are told apart', () => {
  const rows = new PackedRows({ maxRows: 64, numbers: 1, bytes: 0 })
  const digests = Array.from(
    { length: 64 },
    (_, number) => 'ab'.repeat(31) + number.toString(16).padStart(2, '0'),
  )
  for (const [number, digest] of digests.entries()) rows.setNumber(rows.claim(digest), 0, number)
  for (const digest of digests.filter((_, number) => number % 3 === 0)) rows.remove(rows.find(digest))
  const found = digests
    .map(digest => rows.find(digest))
    .map(row => (row === NO_ROW ? null : rows.number(row, 0)))
  expect(found).toEqual(digests.map((_, number) => (number % 3 === 0 ? null : number)))
})

test('what is no digest is not taken for one that was asked for before', () => {
  const rows = new PackedRows({ maxRows: 2, numbers: 0, bytes: 0 })
  const row = rows.claim(digestNo(1))
  for (const text of [
    '',
    'x'.repeat(64),
    digestNo(1).slice(1),
    `${digestNo(1)}0`,
    `${digestNo(1).slice(0, 63)}g`,
    `${digestNo(2).slice(0, 63)}g`,
  ]) {
    expect(() => rows.find(text)).toThrow(RangeError)
    expect(rows.find(digestNo(1))).toBe(row)
  }
})

test('whoever is told that a row makes room may look elsewhere meanwhile', () => {
  const elsewhere = new PackedRows({ maxRows: 2, numbers: 0, bytes: 0 })
  const rows = new PackedRows({ maxRows: 1, numbers: 0, bytes: 0 }, () => elsewhere.find(digestNo(3)))
  rows.claim(digestNo(1))
  const row = rows.claim(digestNo(2))
  expect([1, 2, 3].map(number => rows.find(digestNo(number)))).toEqual([NO_ROW, row, NO_ROW])
})

test('memory is taken as rows are used, whatever their highest number is', () => {
  const before = process.memoryUsage.rss()
  const rows = new PackedRows({ maxRows: 1_000_000, numbers: 8, bytes: 96 })
  for (let number = 0; number < 10; number++) rows.claim(digestNo(number))
  // Of 212 MB, were all of it taken; a system that gives memory by 2 MB at once may give some of those.
  expect(process.memoryUsage.rss() - before).toBeLessThan(20_000_000)
})
