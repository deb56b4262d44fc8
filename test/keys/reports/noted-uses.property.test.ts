import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type NotedUse, NotedUses } from '../../../src/keys/reports/noted-uses.ts'

type Step = { do: 'use'; keyId: string } | { do: 'minute' } | { do: 'ask'; count: number } | { do: 'told' }

const keyId = fc.nat({ max: 11 }).map(number => `key_${number}`)
const is = <Word extends string>(word: Word) => fc.constant(word)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: is('use'), keyId }) },
  fc.record({ do: is('minute') }),
  fc.record({ do: is('ask'), count: fc.integer({ min: 0, max: 4 }) }),
  { weight: 2, arbitrary: fc.record({ do: is('told') }) },
)

/** The same in the plainest form: a map remembers in which order its keys came. */
class Model {
  readonly #maxKeys: number
  readonly noted = new Map<string, number>()

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
  }

  note(keyId: string, minute: number): void {
    this.noted.set(keyId, minute)
    for (const oldest of this.noted.keys()) {
      if (this.noted.size > this.#maxKeys) this.noted.delete(oldest)
    }
  }

  first(count: number): NotedUse[] {
    return [...this.noted].slice(0, count).map(([keyId, minute]) => ({ keyId, minute }))
  }
}

test('uses are told in the order in which keys came, each once with its last minute, whatever comes in between', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.array(step, { maxLength: 60 }), (maxKeys, steps) => {
      const [uses, model] = [new NotedUses(maxKeys), new Model(maxKeys)]
      let minute = 1
      let asked: NotedUse[] = []
      for (const each of steps) {
        if (each.do === 'use') {
          uses.note(each.keyId, minute)
          model.note(each.keyId, minute)
        } else if (each.do === 'minute') minute++
        else if (each.do === 'ask') asked = uses.first(each.count)
        else asked = tell(uses, model, asked)
        expect(uses.first(maxKeys + 1)).toEqual(model.first(maxKeys))
        expect(uses.size).toBe(model.noted.size)
      }
    }),
    { numRuns: 2_000 },
  )
})

/** Only what was the first of the order when it was asked for, and still is unless it made room, was told. */
function tell(uses: NotedUses, model: Model, asked: readonly NotedUse[]): NotedUse[] {
  uses.forget(asked)
  for (const { keyId, minute } of asked) {
    if (model.noted.keys().next().value !== keyId) continue
    const last = model.noted.get(keyId) ?? minute
    model.noted.delete(keyId)
    if (last !== minute) model.note(keyId, last)
  }
  return []
}

test('of very many keys none is taken for another', () => {
  const uses = new NotedUses(100_000)
  for (let key = 0; key < 250_000; key++) uses.note(`key_${key}`, key % 7)
  for (let key = 150_000; key < 250_000; key++) uses.note(`key_${key}`, 9)
  const told = uses.first(100_000)
  expect(told).toHaveLength(100_000)
  expect(told.findIndex(({ keyId, minute }, at) => keyId !== `key_${150_000 + at}` || minute !== 9)).toBe(-1)
})
