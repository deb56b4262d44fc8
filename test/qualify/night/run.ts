import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { FAULTS } from './faults.ts'
import { runNight } from './night.ts'
import { tableOf, wrongIn } from './report.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    'scrape-seconds': { type: 'string', default: '30' },
    'calm-seconds': { type: 'string', default: '180' },
    'broken-seconds': { type: 'string', default: '420' },
    'mended-seconds': { type: 'string', default: '240' },
    /** A file for the output of the runbooks' commands. */
    runbooks: { type: 'string', default: '' },
  },
})
const wanted = values.only.split(',').filter(name => name !== '')
const faults = FAULTS.filter(({ name }) => wanted.length === 0 || wanted.includes(name))
const rows = await runNight(
  faults,
  {
    scrapeSeconds: Number(values['scrape-seconds']),
    calmSeconds: Number(values['calm-seconds']),
    brokenSeconds: Number(values['broken-seconds']),
    mendedSeconds: Number(values['mended-seconds']),
  },
  text => process.stdout.write(`${new Date().toISOString()} ${text}\n`),
)
for (const line of tableOf(rows)) process.stdout.write(`${line}\n`)
if (values.runbooks !== '') {
  const parts = rows.map(({ fault, runbook, firings }) =>
    [
      `===== ${fault.name}: ${runbook?.alert ?? 'no alert'}`,
      ...firings.map(({ alert, description }) => `${alert}: ${description}`),
      runbook?.output ?? '',
    ].join('\n'),
  )
  writeFileSync(values.runbooks, parts.join('\n'))
}
process.exit(rows.some(row => wrongIn(row).length > 0) ? 1 : 0)
