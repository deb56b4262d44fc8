import { readFileSync } from 'node:fs'
import { getHeapStatistics } from 'node:v8'

const COMMAND_LINE = '/proc/self/cmdline'
const MEBIBYTE = 1024 * 1024
/** V8's own, of which the young generation has three. */
const SEMI_SPACE_MIB = 64

/** @returns bytes of what lives long at which this process would end */
export function readHeapLimit(environment: NodeJS.ProcessEnv): number {
  const words = `${environment['NODE_OPTIONS'] ?? ''} ${readCommandLine()}`
  return oldGenerationLimit(getHeapStatistics().heap_size_limit, words)
}

/**
 * The limit that V8 reports is that of both generations, but a process ends when the old one alone is full: with 256 MiB
 * for it, 448 are reported, of which 90 % are never reached.
 * @param options of Node, the later before the earlier where both say the same
 */
export function oldGenerationLimit(reportedBytes: number, options: string): number {
  // How V8 divides this one is not known.
  if (/--max[-_]heap[-_]size\b/.test(options)) return reportedBytes
  const given = [...options.matchAll(/--max[-_]semi[-_]space[-_]size[= ](\d+)/g)].at(-1)?.[1]
  const young = 3 * Number(given ?? SEMI_SPACE_MIB) * MEBIBYTE
  return young < reportedBytes ? reportedBytes - young : reportedBytes
}

/** Words are ended by a zero there; where there is no such file, nothing was said. */
function readCommandLine(): string {
  try {
    return readFileSync(COMMAND_LINE, 'utf8').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}
