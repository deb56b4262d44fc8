import { nextTick } from 'node:process'
import { collectStart, readyHeap } from '../../src/run/settle-heap.ts'

/** Run as a process of its own: prints how much dearer `nextTick` is once the heap is settled. */
const TICKS = 100_000
const TURNS = 8

async function costOfTicks(): Promise<number> {
  const beganMs = performance.now()
  const { promise, resolve } = Promise.withResolvers<void>()
  let left = TICKS
  const tick = () => (left-- > 0 ? nextTick(tick) : resolve())
  nextTick(tick)
  await promise
  return performance.now() - beganMs
}

/** What else the machine does makes it only slower. */
async function leastCost(): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let turn = 0; turn < TURNS; turn++) least = Math.min(least, await costOfTicks())
  return least
}

const before = await leastCost()
await readyHeap({ nextTick })
await collectStart()
process.stdout.write(String((await leastCost()) / before))
