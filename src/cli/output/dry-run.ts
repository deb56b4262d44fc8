import { Option } from 'commander'
import type { AdminSession } from '../client/session.ts'

export const NOTHING_CHANGED = 'Nothing was changed.'
/** Keys that a dry run names. */
export const SHOWN_AT_MOST = 10

export function dryRunOption(): Option {
  return new Option('--dry-run', 'say what would change, and change nothing')
}

/**
 * What a command would change.
 * @param facts for `--json`
 * @param title without its end
 * @param lines one for each of the first keys, or for each difference
 * @param total how many of them there are
 */
export function printDryRun(
  { host, json }: AdminSession,
  facts: object,
  title: string,
  lines: readonly string[],
  total: number,
): void {
  if (json) {
    host.write(`${JSON.stringify({ dryRun: true, ...facts })}\n`)
    return
  }
  const more = total > lines.length ? [`and ${total - lines.length} more`] : []
  const shown = [...lines, ...more].map(line => `  ${line}`)
  host.write(`${[`${title}${shown.length === 0 ? '.' : ':'}`, ...shown, NOTHING_CHANGED].join('\n')}\n`)
}
