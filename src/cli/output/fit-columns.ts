/** Between two columns. */
export const GAP = 2

/** How a column may give way if a table is wider than the terminal. A column without any of these stays, uncut. */
export interface Room {
  /** The column may be cut to this width. */
  readonly atLeast?: number
  /** The column may be left out; lower numbers go first. */
  readonly leaves?: number
  /** The column is left out before any other is cut: it says in full what another says in short. */
  readonly leavesEarly?: true
}

/**
 * Which columns a table shows, and how wide.
 * @param columns each with the width of its longest cell
 * @returns the width of each column, and null for one that is left out
 */
export function fitColumns(
  columns: readonly (Room & { readonly width: number })[],
  available: number,
): (number | null)[] {
  let shown = [...columns]
  const uncut = () => totalOf(shown.map(({ width }) => width))
  const cut = () => totalOf(shown.map(({ width, atLeast = width }) => Math.min(width, atLeast)))
  const byRank = columns.filter(({ leaves }) => leaves !== undefined)
  byRank.sort((a, b) => (a.leaves ?? 0) - (b.leaves ?? 0))
  for (const column of byRank) {
    const needed = column.leavesEarly === true ? uncut() : cut()
    if (needed > available) shown = shown.filter(other => other !== column)
  }
  let excess = uncut() - available
  // The last column is cut first.
  return columns
    .toReversed()
    .map(column => {
      if (!shown.includes(column)) return null
      const { width, atLeast = width } = column
      const removed = Math.max(0, Math.min(excess, width - atLeast))
      excess -= removed
      return width - removed
    })
    .reverse()
}

function totalOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP * Math.max(0, widths.length - 1)
}
