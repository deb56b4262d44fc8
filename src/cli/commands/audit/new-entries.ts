import type { ShownEntry } from '../../admin/audit-responses.ts'

/** Consoles write entries with clocks of their own: one that is later by its clock may arrive before an earlier one. */
const OVERLAP_MS = 10_000

/** What was printed, as far as the next reading overlaps with it. */
export interface Printed {
  /** Where the next reading starts; null before the first entry. */
  readonly fromMs: number | null
  readonly ids: ReadonlySet<string>
}

export const NOTHING_PRINTED: Printed = { fromMs: null, ids: new Set() }

/**
 * The entries that were not printed before, oldest first.
 * @param read what the console has since `printed.fromMs`, newest first
 */
export function newEntries(
  printed: Printed,
  read: readonly ShownEntry[],
): { readonly entries: readonly ShownEntry[]; readonly printed: Printed } {
  const entries = read.filter(({ id }) => !printed.ids.has(id)).reverse()
  const newestMs = Math.max(...read.map(({ at }) => Date.parse(at)))
  const fromMs = read.length === 0 ? printed.fromMs : Math.max(printed.fromMs ?? 0, newestMs - OVERLAP_MS)
  const kept = read.filter(({ at }) => fromMs === null || Date.parse(at) >= fromMs)
  return { entries, printed: { fromMs, ids: new Set(kept.map(({ id }) => id)) } }
}
