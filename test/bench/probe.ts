import { createServer } from 'node:http'
import { monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks'

/**
 * Loaded into a gateway before its own code (`--import`): tells on a port of its own what only the process itself can
 * know, of the time since it was asked last. `/collected` collects garbage first (`--expose-gc`).
 */
export interface Probed {
  /** The longest time that the event loop did not turn. */
  readonly longestPauseMs: number
  /** How late a timer of a millisecond was, 99 of a hundred times at most. */
  readonly p99DelayMs: number
  /** The longest of those that the garbage collector made. */
  readonly longestCollectionMs: number
}

const RESOLUTION_MS = 1
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
let longestCollectionMs = 0
new PerformanceObserver(list => {
  for (const { duration } of list.getEntries()) longestCollectionMs = Math.max(longestCollectionMs, duration)
}).observe({ entryTypes: ['gc'] })
delay.enable()

createServer((request, response) => {
  if (request.url === '/collected') globalThis.gc?.()
  response.end(JSON.stringify(take()))
})
  .listen(Number(process.env['BENCH_PROBE_PORT']), '127.0.0.1')
  .unref()

function take(): Probed {
  const beyondMs = (ns: number) => Math.max(0, ns / 1e6 - RESOLUTION_MS)
  const [longestPauseMs, p99DelayMs] = [beyondMs(delay.max), beyondMs(delay.percentile(99))]
  const probed = { longestPauseMs, p99DelayMs, longestCollectionMs }
  delay.reset()
  longestCollectionMs = 0
  return probed
}
