import { expect, test } from 'vitest'
import { InFlightLimit } from '../../src/gateway/admission.ts'

const createLimit = () => new InFlightLimit({ max: 1000, min: 128 })

test('the limit is the maximum while the event loop is not late', () => {
  const limit = createLimit()
  limit.adjust(false, 900)
  expect(limit.value).toBe(1000)
})

test('while the event loop is late, the limit falls to three quarters of the requests in flight, repeatedly', () => {
  const limit = createLimit()
  limit.adjust(true, 400)
  expect(limit.value).toBe(300)
  limit.adjust(true, 300)
  expect(limit.value).toBe(225)
})

test('the limit never falls below the minimum', () => {
  const limit = createLimit()
  for (let period = 0; period < 20; period++) limit.adjust(true, 5)
  expect(limit.value).toBe(128)
})

test('after an overload, the limit returns to the maximum within a few seconds', () => {
  const limit = createLimit()
  limit.adjust(true, 0)
  let periods = 0
  for (; limit.value < 1000; periods++) limit.adjust(false, 0)
  expect(periods).toBeLessThan(40)
})
