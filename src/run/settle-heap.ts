import { executionAsyncResource } from 'node:async_hooks'
import type { Server } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import type { Host } from './host.ts'

/**
 * Under load the heap's young part is to have its size at once and not after a minute, in which each request would cost
 * a tenth more: V8 doubles it when as much as it holds has outlived its collections, which is little, and makes it small
 * again whenever nobody asks for a while.
 */
const GROW_AT_ONCE = '--semi-space-growth-factor=64'

/**
 * What has outlived a collection once, as much does in the first burst of load, V8 would make among the old ones from
 * then on. What belongs to a request dies with it, and among the old it keeps alive all that it knows: in one start of
 * eight that was a quarter of all that was made, and each collection took 20 ms in place of one.
 */
export const ALL_START_YOUNG = '--no-allocation-site-pretenuring'

/**
 * Marking of the whole heap takes some 40 ms of a core that requests want, too. V8 begins when what is left would not hold
 * one young generation more, of which hardly anything grows old here: of the 75 MB that it allows itself it left 67 unused,
 * and marked every few seconds. It begins when two fifths are used, and at nine tenths at the latest. Later would be too
 * late: buffers outside of the heap fill the same room, but are not in these shares, and where the room is full before
 * marking has begun, all of it is done in one pause of 30 ms.
 */
const MARK_IN_TIME = '--incremental-marking-soft-trigger=40'
const MARK_AT_LATEST = '--incremental-marking-hard-trigger=90'

/**
 * When little is asked for a while, V8 gives memory back, and with it what it has learnt of the shapes of objects, so that
 * most of the code has to be compiled again: after a quiet minute the first second cost twice as much per request, and
 * some of them waited for more than 100 ms. What was needed under load stays with the gateway instead.
 */
export const KEEP_WHEN_QUIET = '--memory-reducer-gc-count=0'

/** What V8 is told of a program whose objects live as long as a request, or for ever. */
export const UNDER_LOAD = [GROW_AT_ONCE, ALL_START_YOUNG, MARK_IN_TIME, MARK_AT_LATEST, KEEP_WHEN_QUIET]

/** One for good, so that the shape of all others is never forgotten. */
const keptTicks: object[] = []

/**
 * Node makes an object for each call of `nextTick`, some three a request. A collection that finds none waiting forgets
 * their shape, and V8 does not learn this one anew: each call cost 0.5 us from then on, not 0.1, a twelfth of a request
 * that is answered from memory.
 */
function keepShapeOfTicks({ nextTick }: Pick<Host, 'nextTick'>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  nextTick(() => {
    keptTicks.push(executionAsyncResource())
    resolve()
  })
  return promise
}

/** Before the first request. */
export async function readyHeap(host: Pick<Host, 'nextTick'>): Promise<void> {
  for (const flag of UNDER_LOAD) setFlagsFromString(flag)
  await keepShapeOfTicks(host)
}

/** Who waits for a process to listen comes at once; a cluster, that has to hear of it first, takes longer. */
const UNUSED_MS = 250

/**
 * Collects what only the start needed, unless somebody asks for something by then: whoever does would wait for it. V8
 * comes to it by itself then, when memory is short.
 * @returns whether it was done; it is not known while the time lasts
 * @throws as `collectStart`
 */
export async function settleUnlessUsed(servers: readonly Server[]): Promise<boolean> {
  let used = false
  for (const server of servers)
    server.once('request', () => {
      used = true
    })
  await sleep(UNUSED_MS, undefined, { ref: false })
  if (!used) await collectStart()
  return !used
}

/**
 * Gives back what only the start needed, parsed sources and settings. It takes some tens of milliseconds in which nothing
 * else runs.
 * @throws where Node was built without its inspector, the one public way to ask for this
 */
export async function collectStart(): Promise<void> {
  const { Session } = await import('node:inspector')
  const session = new Session()
  session.connect()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  session.post('HeapProfiler.collectGarbage', error => (error === null ? resolve() : reject(error)))
  await promise.finally(() => session.disconnect())
}
