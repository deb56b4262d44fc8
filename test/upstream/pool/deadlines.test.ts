import { expect, test } from 'vitest'
import { Deadlines } from '../../../src/upstream/pool/deadlines.ts'

const limits = { headersTimeoutMs: 100, bodyIdleTimeoutMs: 50, totalTimeoutMs: 1000, clientStallMs: 300 }
const asked = () => new Deadlines(limits, 5000)

test('the headers have their time from asking, to the millisecond', () => {
  expect(asked().overdue(5099)).toBeNull()
  expect(asked().overdue(5100)).toBe('headers_timeout')
})

test('who has waited before for somebody else’s answer has so much less for the whole, but as much for the headers', () => {
  const deadlines = new Deadlines(limits, 5000, 950)
  expect(deadlines.overdue(5049)).toBeNull()
  expect(deadlines.overdue(5050)).toBe('total_timeout')
  expect(new Deadlines(limits, 5000, 800).overdue(5100)).toBe('headers_timeout')
})

test('a body may be silent for its time, and each byte begins it anew', () => {
  const deadlines = asked()
  deadlines.headReceived(5090)
  expect(deadlines.overdue(5139)).toBeNull()
  deadlines.progressed()
  expect(deadlines.overdue(5160)).toBeNull()
  expect(deadlines.overdue(5209)).toBeNull()
  expect(deadlines.overdue(5210)).toBe('body_timeout')
})

test('while the client takes nothing the upstream is not to blame, and the client has its own time', () => {
  const deadlines = asked()
  deadlines.headReceived(5090)
  deadlines.hold(true)
  expect(deadlines.overdue(5100)).toBeNull()
  expect(deadlines.overdue(5399)).toBeNull()
  expect(deadlines.overdue(5400)).toBe('client_stalled')
})

test('a client that takes something again gives the upstream its whole time', () => {
  const deadlines = asked()
  deadlines.headReceived(5090)
  deadlines.hold(true)
  deadlines.overdue(5100)
  deadlines.hold(false)
  expect(deadlines.overdue(5390)).toBeNull()
  expect(deadlines.overdue(5439)).toBeNull()
  expect(deadlines.overdue(5440)).toBe('body_timeout')
})

test('nothing outlasts the total deadline', () => {
  const deadlines = asked()
  deadlines.headReceived(5090)
  for (let nowMs = 5100; nowMs < 6000; nowMs += 10) {
    deadlines.progressed()
    expect(deadlines.overdue(nowMs)).toBeNull()
  }
  deadlines.progressed()
  expect(deadlines.overdue(6000)).toBe('total_timeout')
})
