import { expect, test } from 'vitest'
import { InFlightLimit } from '../../src/domain/in-flight-limit.ts'

const limit = () => new InFlightLimit({ most: 1000, least: 128 })

test('all is let in until the process is late', () => {
  const all = limit()
  all.adjust(false, 900)
  expect(all.value).toBe(1000)
})

test('while it is late, a quarter less than what was in flight is let in, and less again', () => {
  const late = limit()
  late.adjust(true, 400)
  expect(late.value).toBe(300)
  late.adjust(true, 300)
  expect(late.value).toBe(225)
})

test('however late it is, some are let in', () => {
  const late = limit()
  for (let period = 0; period < 20; period++) late.adjust(true, 5)
  expect(late.value).toBe(128)
})

test('when it is in time again, all are let in again within a few seconds', () => {
  const late = limit()
  late.adjust(true, 0)
  let periods = 0
  for (; late.value < 1000; periods++) late.adjust(false, 0)
  expect(periods).toBeLessThan(40)
})
