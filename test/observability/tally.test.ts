import { Counter, Histogram, Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { TallyCounter, TallyHistogram } from '../../src/observability/tally.ts'

const name = 'a_metric'
const help = 'Of a test'

test('a tallied counter shows what the library would show, at every look', async () => {
  const [own, library] = [new Registry(), new Registry()]
  const tallied = new TallyCounter({ name, help, labelNames: ['kind'], registers: [own] })
  const plain = new Counter({ name, help, labelNames: ['kind'], registers: [library] })
  const child = tallied.child({ kind: 'a' })
  plain.inc({ kind: 'a' }, 0)
  expect(await own.metrics()).toBe(await library.metrics())
  child.inc()
  child.inc(2)
  tallied.inc({ kind: 'b' })
  plain.inc({ kind: 'a' }, 3)
  plain.inc({ kind: 'b' })
  for (let look = 0; look < 2; look++) expect(await own.metrics()).toBe(await library.metrics())
})

test('a tallied histogram shows what the library would show, bounds and what lies beyond included', async () => {
  const [own, library] = [new Registry(), new Registry()]
  const buckets = [0.1, 0.5, 1]
  const labelNames = ['kind']
  const tallied = new TallyHistogram({ name, help, labelNames, buckets, registers: [own] })
  const plain = new Histogram({ name, help, labelNames, buckets, registers: [library] })
  const child = tallied.child({ kind: 'a' })
  tallied.child({ kind: 'empty' })
  // Asked for twice, it is the same one: two series of one name would be no answer at all.
  expect(tallied.child({ kind: 'a' })).toBe(child)
  plain.zero({ kind: 'a' })
  plain.zero({ kind: 'empty' })
  for (const value of [0.05, 0.1, 0.3, 1, 7]) {
    child.observe(value)
    plain.observe({ kind: 'a' }, value)
  }
  expect(await own.metrics()).toBe(await library.metrics())
})
