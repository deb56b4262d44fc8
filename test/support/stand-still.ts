import { StarvationMeter } from './starvation-meter.ts'

// A program that measures while the test stops it, as a host stops a whole machine. It has no other process to measure.
const fromMs = Date.now()
const meter = new StarvationMeter([])
process.stdout.write('measuring\n')
process.stdin.once('data', () => {
  const untilMs = Date.now()
  process.stdout.write(
    `${JSON.stringify([meter.waitedMs(fromMs, untilMs), meter.waitedInAllMs(fromMs, untilMs), meter.longestMs])}\n`,
  )
  meter.stop()
  process.exit()
})
