import { setTimeout } from 'node:timers/promises'
import { systemClock } from '../../../domain/clock.ts'
import { EXIT } from '../../../run/host.ts'
import type { ShownEntry } from '../../admin/audit-responses.ts'
import { CliError } from '../../cli.ts'
import { NOTHING_PRINTED, newEntries } from './new-entries.ts'

const POLL_MS = 1000
/** A console that restarts answers again within this time. */
const AWAY_MS = 60_000

/**
 * Prints each entry once, until the process is ended. A console that does not answer for a minute ends it, too.
 * @param first the entries to begin with, newest first
 * @param readSince every entry from an instant on, newest first
 */
export async function followEntries(
  first: readonly ShownEntry[],
  readSince: (fromMs: number | null) => Promise<readonly ShownEntry[]>,
  print: (entry: ShownEntry) => void,
): Promise<never> {
  let { entries, printed } = newEntries(NOTHING_PRINTED, first)
  let lastResponseMs = systemClock.monotonicMs()
  for (;;) {
    for (const entry of entries) print(entry)
    entries = []
    await setTimeout(POLL_MS)
    try {
      const next = newEntries(printed, await readSince(printed.fromMs))
      entries = next.entries
      printed = next.printed
      lastResponseMs = systemClock.monotonicMs()
    } catch (error) {
      const isUnavailable = error instanceof CliError && error.exitCode === EXIT.unavailable
      if (!isUnavailable || systemClock.monotonicMs() - lastResponseMs > AWAY_MS) throw error
    }
  }
}
