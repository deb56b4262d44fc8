import type { Firing, NightRow } from './night.ts'

const LIMIT_SECONDS = 300
/** About the machine of the night, which runs sixty processes: shown, and not counted as wrong. */
const OF_THE_LOAD = new Set([
  'PosternOverheadLatencyBudgetBurn',
  'PosternEventLoopLagHigh',
  'PosternKeyStoreDegraded',
])

/** What is wrong with a row, in words; empty if nothing is. */
export function wrongIn({ fault, firings, runbook }: NightRow): string[] {
  const broken = firings.filter(({ fromSeconds }) => fromSeconds >= 0)
  const named = broken.find(({ alert }) => fault.named.includes(alert))
  const known = new Set([...fault.named, ...(fault.expected ?? [])])
  const wrong = firings
    .filter(({ alert, fromSeconds }) => (fromSeconds < 0 || !known.has(alert)) && !OF_THE_LOAD.has(alert))
    .map(({ alert, fromSeconds }) => `${alert} fires after ${fromSeconds.toFixed(0)} s`)
  if (fault.named.length > 0 && named === undefined) wrong.push('no alert names the cause')
  if (named !== undefined && named.fromSeconds > LIMIT_SECONDS) wrong.push(`named after ${LIMIT_SECONDS} s`)
  if (fault.shows !== undefined && !fault.shows.test(runbook?.output ?? ''))
    wrong.push(`the commands of the runbook do not show ${fault.shows}`)
  return wrong
}

/** One row of the table in Markdown for each fault. */
export function tableOf(rows: readonly NightRow[]): string[] {
  const lines = rows.map(row => {
    const first = row.firings.find(
      ({ alert, fromSeconds }) => fromSeconds >= 0 && row.fault.named.includes(alert),
    )
    const others = row.firings.filter(firing => firing !== first)
    const cells = [
      row.fault.name,
      first === undefined ? '–' : spanOf(first),
      others.map(spanOf).join(', ') || '–',
    ]
    return `| ${[...cells, wrongIn(row).join('; ') || '–'].join(' | ')} |`
  })
  const head = ['fault', 'first alert that names the cause', 'other alerts', 'wrong']
  return [`| ${head.join(' | ')} |`, `|${head.map(() => ' --- |').join('')}`, ...lines]
}

function spanOf({ alert, severity, fromSeconds, toSeconds }: Firing): string {
  const end = toSeconds === null ? '' : ` to ${toSeconds.toFixed(0)}`
  return `${alert} (${severity}) ${fromSeconds.toFixed(0)}${end} s`
}
