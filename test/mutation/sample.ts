import { createHash } from 'node:crypto'

export interface SourceFile {
  readonly path: string
  /** Number of its lines. */
  readonly lines: number
}

/** Lines mutated together: one alone is seldom a whole statement. */
const BLOCK = 10

/**
 * Chooses blocks of lines evenly over all files.
 * @param seed the same seed chooses the same blocks
 * @returns ranges in Stryker's form: path, colon, first and last line joined by a hyphen
 */
export function sampleRanges(files: readonly SourceFile[], lines: number, seed: number): string[] {
  const blocks = files.flatMap(file =>
    Array.from({ length: Math.ceil(file.lines / BLOCK) }, (_, index) => {
      const first = index * BLOCK + 1
      return `${file.path}:${first}-${Math.min(file.lines, first + BLOCK - 1)}`
    }),
  )
  const order = (block: string) => createHash('sha256').update(`${seed} ${block}`).digest('hex')
  const shuffled = blocks
    .map(block => [order(block), block] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  return shuffled.slice(0, Math.ceil(lines / BLOCK)).map(([, block]) => block)
}

export function isInside(ranges: readonly string[], path: string, line: number): boolean {
  return ranges.some(range => {
    const [rangePath, lines = ''] = range.split(':')
    const [first = 0, last = 0] = lines.split('-').map(Number)
    return rangePath === path && line >= first && line <= last
  })
}
