import { expect, test } from 'vitest'
import { Deadlines } from '../../../src/upstream/pool/deadlines.ts'

const limits = { headersTimeoutMs: 100, bodyIdleTimeoutMs: 50, totalTimeoutMs: 1000, clientStallMs: 300 }
const start = () => new Deadlines(limits, 5000)

test('the headers deadline counts from the start of the exchange, to the millisecond', () => {
  expect(start().overdue(5099)).toBeNull()
  expect(start().overdue(5100)).toBe('headers_timeout')
})

test('an earlier wait for a coalesced request shortens the total deadline, but not the headers deadline', () => {
  const deadlines = new Deadlines(limits, 5000, 950)
  expect(deadlines.overdue(5049)).toBeNull()
  expect(deadlines.overdue(5050)).toBe('total_timeout')
  expect(new Deadlines(limits, 5000, 800).overdue(5100)).toBe('headers_timeout')
})

test('each chunk of a body restarts its idle deadline', () => {
  const deadlines = start()
  deadlines.headReceived(5090)
  expect(deadlines.overdue(5139)).toBeNull()
  deadlines.progressed()
  expect(deadlines.overdue(5160)).toBeNull()
  expect(deadlines.overdue(5209)).toBeNull()
  expect(deadlines.overdue(5210)).toBe('body_timeout')
})

test('while reading is paused for the client, only the client’s deadline counts', () => {
  const deadlines = start()
  deadlines.headReceived(5090)
  deadlines.setPaused(true)
  expect(deadlines.overdue(5100)).toBeNull()
  expect(deadlines.overdue(5399)).toBeNull()
  expect(deadlines.overdue(5400)).toBe('client_stalled')
})

test('when the client reads again, the idle deadline of the body restarts', () => {
  const deadlines = start()
  deadlines.headReceived(5090)
  deadlines.setPaused(true)
  deadlines.overdue(5100)
  deadlines.setPaused(false)
  expect(deadlines.overdue(5390)).toBeNull()
  expect(deadlines.overdue(5439)).toBeNull()
  expect(deadlines.overdue(5440)).toBe('body_timeout')
})

test('no exchange exceeds the total deadline', () => {
  const deadlines = start()
  deadlines.headReceived(5090)
  for (let nowMs = 5100; nowMs < 6000; nowMs += 10) {
    deadlines.progressed()
    expect(deadlines.overdue(nowMs)).toBeNull()
  }
  deadlines.progressed()
  expect(deadlines.overdue(6000)).toBe('total_timeout')
})
