import { createServer } from 'node:http'
import { monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks'

/**
 * Loaded into a gateway before its own code (`--import`): reports on its own port what only the process can measure,
 * since the last report. `/collected` collects garbage first (`--expose-gc`).
 */
export interface Probed {
  /** The longest block of the event loop. */
  readonly longestPauseMs: number
  /** 99th percentile of the delay of a 1 ms timer. */
  readonly p99DelayMs: number
  /** The longest pause for garbage collection. */
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
