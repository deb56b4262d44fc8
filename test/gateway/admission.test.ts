import { beforeEach, expect, test } from 'vitest'
import { Admission, watchLoad } from '../../src/gateway/admission.ts'
import { settled, until } from '../support/until.ts'

const WELL = { turnMs: 1, utilization: 0.5, heap: 0.5 }
const BUSY = { ...WELL, utilization: 0.95 }
const LATE = { ...BUSY, turnMs: 21 }
const FULL = { ...WELL, heap: 0.9 }
let inFlight: number
let admission: Admission
beforeEach(() => {
  const settings = { maxInFlight: 100, minInFlight: 10, maxLoopDelayMs: 20, maxHeapPercent: 90 }
  inFlight = 0
  admission = new Admission(settings, () => inFlight)
})

function holdBack(): { over: boolean } {
  const held = { over: false }
  void admission.holdBack().then(() => {
    held.over = true
  })
  return held
}

test('who is one too many hears so at once, while the process is in time', async () => {
  const held = holdBack()
  await settled()
  expect(held.over).toBe(true)
})

test('while turns of the event loop are long, fewer are let in', () => {
  inFlight = 40
  admission.note(LATE)
  expect(admission.limit).toBe(30)
  admission.note(WELL)
  expect(admission.limit).toBe(32)
})

test('what is shed then is held back for three periods', async () => {
  inFlight = 10
  admission.note(LATE)
  expect(admission.limit).toBe(10)
  const held = [holdBack(), holdBack()]
  for (const over of [false, false, true]) {
    admission.note(LATE)
    await settled()
    expect(held.map(each => each.over)).toEqual([over, over])
  }
})

test('one workspace may have all that may be in flight, and a quarter more is for the others', () => {
  inFlight = 100
  expect([admission.admits(), admission.admitsOf(100)]).toEqual([true, true])
  inFlight = 101
  expect([admission.admits(), admission.admitsOf(101)]).toEqual([true, false])
  expect(admission.admitsOf(26)).toBe(false)
  expect(admission.admitsOf(25)).toBe(true)
  inFlight = 126
  expect(admission.admits()).toBe(false)
})

test('where one request is let in at a time, it may be of any workspace, and no second is let in', () => {
  admission.note(FULL)
  inFlight = 1
  expect([admission.admits(), admission.admitsOf(1)]).toEqual([true, true])
  inFlight = 2
  expect(admission.admits()).toBe(false)
})

test('so is what is refused while the process has hardly a moment free, however short its turns are', async () => {
  admission.note(BUSY)
  expect(admission.limit).toBe(100)
  const held = holdBack()
  await settled()
  expect(held.over).toBe(false)
  for (let period = 0; period < 3; period++) admission.note(WELL)
  const later = holdBack()
  await settled()
  expect([held.over, later.over]).toEqual([true, true])
})

test('no more than a thousand are held back at once', async () => {
  admission.note(LATE)
  const held = Array.from({ length: 1001 }, holdBack)
  await settled()
  expect(held.filter(({ over }) => over)).toHaveLength(1)
})

test('a gateway that ends holds nobody back', async () => {
  admission.note(LATE)
  const held = holdBack()
  admission.stop()
  const later = holdBack()
  await settled()
  expect([held.over, later.over]).toEqual([true, true])
})

test('with the heap nearly full one at a time is let in, until there is room again', () => {
  admission.note(FULL)
  inFlight = 1
  expect(admission.admits()).toBe(true)
  inFlight = 2
  expect(admission.admits()).toBe(false)
  admission.note(WELL)
  expect(admission.admits()).toBe(true)
})

test('what is measured is how long the turns of this very process are', async () => {
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
  await until('long turns are seen', () => longestMs > 15)
  clearInterval(block)
  stop()
  expect(utilization).toBeGreaterThan(0.5)
  expect(utilization).toBeLessThanOrEqual(1)
  expect(heap).toBeGreaterThan(0)
  expect(heap).toBeLessThan(1)
})
