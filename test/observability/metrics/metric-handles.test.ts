import { Counter, Histogram, Registry } from 'prom-client'
import { expect, test } from 'vitest'
import {
  CollectedGauge,
  HandleCounter,
  HandleHistogram,
} from '../../../src/observability/metrics/metric-handles.ts'

const name = 'a_metric'
const help = 'Of a test'

test('a counter with handles exposes the same as the library’s counter, at every scrape', async () => {
  const [own, library] = [new Registry(), new Registry()]
  const handles = new HandleCounter({ name, help, labelNames: ['kind'], registers: [own] })
  const plain = new Counter({ name, help, labelNames: ['kind'], registers: [library] })
  const child = handles.handle({ kind: 'a' })
  plain.inc({ kind: 'a' }, 0)
  expect(await own.metrics()).toBe(await library.metrics())
  child.inc()
  child.inc(2)
  handles.inc({ kind: 'b' })
  plain.inc({ kind: 'a' }, 3)
  plain.inc({ kind: 'b' })
  for (let look = 0; look < 2; look++) expect(await own.metrics()).toBe(await library.metrics())
})

test('a histogram with handles exposes the same as the library’s histogram, at and beyond its bounds', async () => {
  const [own, library] = [new Registry(), new Registry()]
  const buckets = [0.1, 0.5, 1]
  const labelNames = ['kind']
  const handles = new HandleHistogram({ name, help, labelNames, buckets, registers: [own] })
  const plain = new Histogram({ name, help, labelNames, buckets, registers: [library] })
  const child = handles.handle({ kind: 'a' })
  handles.handle({ kind: 'empty' })
  // Requested twice, it is the same handle: duplicate series would make the scrape invalid.
  expect(handles.handle({ kind: 'a' })).toBe(child)
  plain.zero({ kind: 'a' })
  plain.zero({ kind: 'empty' })
  for (const value of [0.05, 0.1, 0.3, 1, 7]) {
    child.observe(value)
    plain.observe({ kind: 'a' }, value)
  }
  expect(await own.metrics()).toBe(await library.metrics())
})

test('a collected gauge shows the value at the time of each scrape', async () => {
  const registry = new Registry()
  const gauge = new CollectedGauge({ name, help, registers: [registry] })
  expect(await registry.metrics()).toContain('\na_metric 0\n')
  let value = 1
  gauge.onCollect(collected => collected.set(value))
  expect(await registry.metrics()).toContain('\na_metric 1\n')
  value = 2
  expect(await registry.metrics()).toContain('\na_metric 2\n')
})
