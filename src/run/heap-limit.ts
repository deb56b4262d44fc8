import { readFileSync } from 'node:fs'
import { getHeapStatistics } from 'node:v8'

const COMMAND_LINE = '/proc/self/cmdline'
const MEBIBYTE = 1024 * 1024
/** V8's default; the young generation has three semi-spaces. */
const SEMI_SPACE_MIB = 64

/** @returns the limit of the old generation, in bytes: the process ends when it is full */
export function readHeapLimit(environment: NodeJS.ProcessEnv): number {
  const words = `${environment['NODE_OPTIONS'] ?? ''} ${readCommandLine()}`
  return oldGenerationLimit(getHeapStatistics().heap_size_limit, words)
}

/**
 * V8 reports the limit of both generations, but a process ends when the old one is full: with 256 MiB for it, V8 reports
 * 448 MiB, of which 90 % are never reached.
 * @param options of Node; a later one overrides an earlier one
 */
export function oldGenerationLimit(reportedBytes: number, options: string): number {
  // V8 does not document how it divides this one.
  if (/--max[-_]heap[-_]size\b/.test(options)) return reportedBytes
  const given = [...options.matchAll(/--max[-_]semi[-_]space[-_]size[= ](\d+)/g)].at(-1)?.[1]
  const young = 3 * Number(given ?? SEMI_SPACE_MIB) * MEBIBYTE
  return young < reportedBytes ? reportedBytes - young : reportedBytes
}

/** Its words end with a zero byte. Empty where the system has no such file. */
function readCommandLine(): string {
  try {
    return readFileSync(COMMAND_LINE, 'utf8').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}
