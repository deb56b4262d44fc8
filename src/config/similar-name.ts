/** A name with more typing errors than this is taken for another one. */
const MOST_EDITS = 3

/** @returns ` (did you mean X?)` with the most similar candidate, or an empty text if none is similar */
export function similarTo(name: string, candidates: Iterable<string>): string {
  let best: string | null = null
  let fewest = Math.min(MOST_EDITS, Math.floor(name.length / 3)) + 1
  for (const candidate of candidates) {
    const edits = countEdits(name, candidate)
    if (edits >= fewest) continue
    fewest = edits
    best = candidate
  }
  return best === null ? '' : ` (did you mean ${best}?)`
}

/** Damerau-Levenshtein distance without repeated edits: characters added, left out, replaced or swapped with the next. */
function countEdits(one: string, other: string): number {
  if (Math.abs(one.length - other.length) > MOST_EDITS) return Number.POSITIVE_INFINITY
  const rows = [Array.from({ length: other.length + 1 }, (_, column) => column)]
  const at = (row: number, column: number) => rows[row]?.[column] ?? Number.POSITIVE_INFINITY
  for (let row = 1; row <= one.length; row++) {
    rows[row] = [row]
    for (let column = 1; column <= other.length; column++) {
      const same = one[row - 1] === other[column - 1]
      const swapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      rows[row]?.push(
        Math.min(
          at(row - 1, column) + 1,
          at(row, column - 1) + 1,
          at(row - 1, column - 1) + (same ? 0 : 1),
          swapped ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      )
    }
  }
  return at(one.length, other.length)
}
