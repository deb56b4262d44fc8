import { parseArgs } from 'node:util'
import { growthOf, reportLines } from './report.ts'
import { soak } from './soak.ts'

const MINUTE_MS = 60_000
/** Allowed growth of the heap after garbage collection. */
const HEAP_SHARE = 0.02

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '15' },
    'warm-up-minutes': { type: 'string', default: '3' },
  },
})
const times = {
  warmUpMs: Number(values['warm-up-minutes']) * MINUTE_MS,
  soakMs: Number(values.minutes) * MINUTE_MS,
  faultMs: 1_000,
  calmMs: 1_500,
}
const report = await soak(times, fault => process.stdout.write(`${new Date().toISOString()} ${fault}\n`))
const growth = growthOf(report, HEAP_SHARE)
for (const line of [...reportLines(report), ...growth]) process.stdout.write(`${line}\n`)
process.exit(report.wrong.length + report.loggedErrors.length + growth.length > 0 ? 1 : 0)
