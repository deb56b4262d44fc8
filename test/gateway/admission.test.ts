import { getHeapStatistics } from 'node:v8'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { Admission, type Load, watchLoad } from '../../src/gateway/admission.ts'
import { collectGarbage } from '../support/expose-gc.ts'
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

test('a rejection is delayed as long as fewer requests than configured are admitted, also if the process is idle', async () => {
  admission.recordLoad(LATE)
  admission.recordLoad(NORMAL)
  const delay = delayRejection()
  await settled()
  expect(delay.isOver).toBe(false)
})

test('turns of maxLoopDelayMs are not late, and a process that works for nine tenths of the time is not busy', async () => {
  inFlight = 40
  admission.recordLoad({ turnMs: 20, utilization: 0.9, heap: 0.5 })
  expect(admission.limit).toBe(100)
  const delay = delayRejection()
  await settled()
  expect(delay.isOver).toBe(true)
})

test('at most 1000 rejections are delayed at a time', async () => {
  admission.recordLoad(LATE)
  const delays = Array.from({ length: 1001 }, delayRejection)
  await settled()
  expect(delays.filter(({ isOver }) => isOver)).toHaveLength(1)
  for (let period = 0; period < 3; period++) admission.recordLoad(LATE)
  const later = Array.from({ length: 1001 }, delayRejection)
  await settled()
  expect(later.filter(({ isOver }) => isOver)).toHaveLength(1)
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

describe('of this process are measured', () => {
  let loads: Load[]
  let stop = () => {}
  let block: NodeJS.Timeout | undefined
  beforeEach(() => {
    const seen: Load[] = []
    loads = seen
    stop = watchLoad(1024 ** 3, load => seen.push(load))
  })
  afterEach(() => {
    stop()
    clearInterval(block)
  })

  test('the turns, and how busy it is', async () => {
    block = setInterval(() => {
      const untilMs = performance.now() + 30
      while (performance.now() < untilMs);
    }, 1)
    await until('long turns in a busy period are measured', () =>
      loads.some(({ turnMs, utilization }) => turnMs > 15 && utilization > 0.5),
    )
    expect(Math.max(...loads.map(({ utilization }) => utilization))).toBeLessThanOrEqual(1)
  })

  test('short turns as short, also if there are many of them', async () => {
    let isOver = false
    const turn = () => {
      const untilMs = performance.now() + 1
      while (performance.now() < untilMs);
      if (!isOver) setImmediate(turn)
    }
    turn()
    onTestFinished(() => {
      isOver = true
    })
    // A turn in which the process gets no processor is long: the machine spares a period now and then.
    await until('a period full of short turns is measured', () =>
      loads.some(({ utilization, turnMs }) => utilization > 0.8 && turnMs < 40),
    )
  })

  test('the long-lived objects, as a part of their limit', async () => {
    // The young objects and the garbage do not count, and other tests may have left much.
    collectGarbage()
    const before = loads.length
    await until('a period is measured', () => loads.length > before)
    const bytes = (loads.at(-1)?.heap ?? 0) * 1024 ** 3
    const { used_heap_size: used } = getHeapStatistics()
    expect(bytes).toBeGreaterThan(used / 2)
    expect(bytes).toBeLessThan(used * 2)
  })

  test('until measuring is stopped', async () => {
    await until('a period is measured', () => loads.length > 0)
    stop()
    const count = loads.length
    const others: Load[] = []
    const stopOthers = watchLoad(1024 ** 3, load => others.push(load))
    await until('two further periods are over', () => others.length > 1)
    stopOthers()
    expect(loads).toHaveLength(count)
  })
})
