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

test('the time of an exchange counts from its start, and so does that of a client that reads nothing', () => {
  const deadlines = start()
  expect(deadlines.elapsedMs(5070)).toBe(70)
  deadlines.headReceived(5090)
  expect([deadlines.isPaused, deadlines.stall(5200)]).toEqual([false, { startedAtMs: 5000, stalledMs: 0 }])
  deadlines.setPaused(true)
  // The pause has no time yet: the next check gives it one.
  expect([deadlines.isPaused, deadlines.stall(5200).stalledMs]).toEqual([true, 0])
  deadlines.overdue(5100)
  expect(deadlines.stall(5250)).toEqual({ startedAtMs: 5000, stalledMs: 150 })
})

test('a body that never sends a byte is idle from its head on', () => {
  const deadlines = start()
  deadlines.headReceived(5020)
  expect([deadlines.overdue(5069), deadlines.overdue(5070)]).toEqual([null, 'body_timeout'])
})
