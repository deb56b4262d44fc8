import type { ShownUsage } from '../admin/responses.ts'
import type { Paint } from './paint.ts'
import { plainText } from './text.ts'

const BAR = '█'
/** Bars of eighths, from the shortest. */
const PARTS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']
const MAX_BAR = 50
const MIN_BAR = 8

/** A bar for each hour or day, what was served and what was not apart, and sums below. */
export function usageText(
  { step, usage }: ShownUsage,
  { width, paint }: { readonly width: number; readonly paint: Paint },
): string {
  const most = Math.max(1, ...usage.map(({ requests }) => requests))
  const digits = String(most).length
  const labels = usage.map(({ at }) =>
    step === 'hour' ? `${at.slice(5, 10)} ${at.slice(11, 16)}` : at.slice(0, 10),
  )
  const [label = ''] = labels
  // Label, number, and what was not served need room beside the bar.
  const room = Math.max(MIN_BAR, Math.min(MAX_BAR, width - label.length - 2 * digits - 18))
  const lines = usage.map(({ requests, byCode }, index) => {
    const refused = requests - (byCode['ok'] ?? 0)
    const note = refused === 0 ? '' : paint('red', `  ${refused} not served`)
    const bar = barOf((requests / most) * room)
    return `${labels[index]}  ${String(requests).padStart(digits)}  ${paint('green', bar)}${note}`.trimEnd()
  })
  return `${[...lines, '', ...sumsOf(usage, paint)].join('\n')}\n`
}

function barOf(length: number): string {
  const eighths = Math.max(length > 0 ? 1 : 0, Math.round(length * 8))
  return BAR.repeat(Math.floor(eighths / 8)) + (PARTS[eighths % 8] ?? '')
}

/** Times are UTC. */
function sumsOf(usage: ShownUsage['usage'], paint: Paint): string[] {
  const total = usage.reduce((sum, { requests }) => sum + requests, 0)
  const list = (counts: readonly Readonly<Record<string, number>>[]) => {
    const sums = new Map<string, number>()
    for (const [name, count] of counts.flatMap(Object.entries<number>)) {
      sums.set(name, (sums.get(name) ?? 0) + count)
    }
    return [...sums]
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `${plainText(name)} ${count}`)
      .join(', ')
  }
  const requests = `${paint('bold', 'Requests')}  ${total} (times are UTC)`
  if (total === 0) return [requests]
  return [
    requests,
    `${paint('bold', 'By code')}   ${list(usage.map(({ byCode }) => byCode))}`,
    `${paint('bold', 'By route')}  ${list(usage.map(({ byRoute }) => byRoute))}`,
  ]
}
