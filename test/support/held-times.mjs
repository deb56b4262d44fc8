// For `node --import`: a time of an hour passes when the test sends a signal, and not before.
import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers/promises'

const LONG_MS = 3_500_000
const { setTimeout: later, clearTimeout: cancel } = globalThis
/** By timer, what happens once its time has passed. */
const held = new Map()

globalThis.setTimeout = (run, ms, ...values) => {
  const timer = later(run, ms, ...values)
  if (ms > LONG_MS) held.set(timer, () => run(...values))
  return timer
}
globalThis.clearTimeout = timer => {
  held.delete(timer)
  cancel(timer)
}
const { setTimeout: sleep } = timers
timers.setTimeout = (ms, value, options) =>
  ms > LONG_MS ? new Promise(resolve => globalThis.setTimeout(resolve, ms, value)) : sleep(ms, value, options)
syncBuiltinESMExports()

process.on('SIGPWR', () => {
  for (const [timer, run] of held) {
    globalThis.clearTimeout(timer)
    run()
  }
})
