import { beforeEach, expect, test } from 'vitest'
import { Admission, watchLoad } from '../../src/gateway/admission.ts'
import { settled, until } from '../support/until.ts'

const NORMAL = { turnMs: 1, utilization: 0.5, heap: 0.5 }
const BUSY = { ...NORMAL, utilization: 0.95 }
const LATE = { ...BUSY, turnMs: 21 }
const FULL = { ...NORMAL, heap: 0.9 }
let inFlight: number
let admission: Admission
beforeEach(() => {
  const settings = { maxInFlight: 100, minInFlight: 10, maxLoopDelayMs: 20, maxHeapPercent: 90 }
  inFlight = 0
  admission = new Admission(settings, () => inFlight)
})

function delayRejection(): { isOver: boolean } {
  const delay = { isOver: false }
  void admission.delayRejection().then(() => {
    delay.isOver = true
  })
  return delay
}

test('a rejection is not delayed under normal load', async () => {
  const delay = delayRejection()
  await settled()
  expect(delay.isOver).toBe(true)
})

test('long turns of the event loop lower the limit', () => {
  inFlight = 40
  admission.recordLoad(LATE)
  expect(admission.limit).toBe(30)
  admission.recordLoad(NORMAL)
  expect(admission.limit).toBe(32)
})

test('under overload a rejection is delayed until the end of the third period', async () => {
  inFlight = 10
  admission.recordLoad(LATE)
  expect(admission.limit).toBe(10)
  const delays = [delayRejection(), delayRejection()]
  for (const isOver of [false, false, true]) {
    admission.recordLoad(LATE)
    await settled()
    expect(delays.map(delay => delay.isOver)).toEqual([isOver, isOver])
  }
})

test('one workspace may use the whole limit, and a reserve of a quarter more is for the others', () => {
  inFlight = 100
  expect([admission.admits(), admission.admitsWorkspace(100)]).toEqual([true, true])
  inFlight = 101
  expect([admission.admits(), admission.admitsWorkspace(101)]).toEqual([true, false])
  expect(admission.admitsWorkspace(26)).toBe(false)
  expect(admission.admitsWorkspace(25)).toBe(true)
  inFlight = 126
  expect(admission.admits()).toBe(false)
})

test('with a full heap one request of any workspace is admitted, and no second one', () => {
  admission.recordLoad(FULL)
  inFlight = 1
  expect([admission.admits(), admission.admitsWorkspace(1)]).toEqual([true, true])
  inFlight = 2
  expect(admission.admits()).toBe(false)
})

test('a rejection is also delayed if the process is busy with short turns', async () => {
  admission.recordLoad(BUSY)
  expect(admission.limit).toBe(100)
  const delay = delayRejection()
  await settled()
  expect(delay.isOver).toBe(false)
  for (let period = 0; period < 3; period++) admission.recordLoad(NORMAL)
  const later = delayRejection()
  await settled()
  expect([delay.isOver, later.isOver]).toEqual([true, true])
})

test('at most 1000 rejections are delayed at a time', async () => {
  admission.recordLoad(LATE)
  const delays = Array.from({ length: 1001 }, delayRejection)
  await settled()
  expect(delays.filter(({ isOver }) => isOver)).toHaveLength(1)
})

test('after stop() no rejection is delayed', async () => {
  admission.recordLoad(LATE)
  const delay = delayRejection()
  admission.stop()
  const later = delayRejection()
  await settled()
  expect([delay.isOver, later.isOver]).toEqual([true, true])
})

test('with a full heap one request at a time is admitted, until there is room again', () => {
  admission.recordLoad(FULL)
  inFlight = 1
  expect(admission.admits()).toBe(true)
  inFlight = 2
  expect(admission.admits()).toBe(false)
  admission.recordLoad(NORMAL)
  expect(admission.admits()).toBe(true)
})

test('the turns of this process are measured', async () => {
  let longestMs = 0
  let heap = 0
  let utilization = 0
  const stop = watchLoad(1024 ** 3, load => {
    longestMs = Math.max(longestMs, load.turnMs)
    utilization = Math.max(utilization, load.utilization)
    heap = load.heap
  })
  const block = setInterval(() => {
    const untilMs = performance.now() + 30
    while (performance.now() < untilMs);
  }, 1)
  await until('long turns are measured', () => longestMs > 15)
  clearInterval(block)
  stop()
  expect(utilization).toBeGreaterThan(0.5)
  expect(utilization).toBeLessThanOrEqual(1)
  expect(heap).toBeGreaterThan(0)
  expect(heap).toBeLessThan(1)
})
