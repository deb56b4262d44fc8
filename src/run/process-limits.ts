import { readFileSync } from 'node:fs'
import { getHeapStatistics } from 'node:v8'

const COMMAND_LINE = '/proc/self/cmdline'
const MEBIBYTE = 1024 * 1024
/** V8's default; the young generation has three semi-spaces. */
const DEFAULT_SEMI_SPACE_MIB = 64

/** @returns the limit of the old generation, in bytes: V8 ends the process when it is full */
export function readHeapLimit(environment: NodeJS.ProcessEnv): number {
  const words = `${environment['NODE_OPTIONS'] ?? ''} ${readCommandLine()}`
  return oldGenerationLimit(getHeapStatistics().heap_size_limit, words)
}

/**
 * V8 reports the limit of both generations together, but ends the process when the old one is full: with 256 MiB for it, V8
 * reports 448 MiB, so an alert at 90 % of that would never fire.
 * @param reportedBytes the heap limit that V8 reports
 * @param options command-line options of Node; a later one overrides an earlier one
 * @returns bytes
 */
export function oldGenerationLimit(reportedBytes: number, options: string): number {
  // V8 does not document how it divides this limit between the generations.
  if (/--max[-_]heap[-_]size\b/.test(options)) return reportedBytes
  const semiSpaceMib = [...options.matchAll(/--max[-_]semi[-_]space[-_]size[= ](\d+)/g)].at(-1)?.[1]
  const youngBytes = 3 * Number(semiSpaceMib ?? DEFAULT_SEMI_SPACE_MIB) * MEBIBYTE
  return youngBytes < reportedBytes ? reportedBytes - youngBytes : reportedBytes
}

/** Linux separates the arguments by zero bytes. Empty on systems without the file. */
function readCommandLine(): string {
  try {
    return readFileSync(COMMAND_LINE, 'utf8').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}

const LIMITS_FILE = '/proc/self/limits'
const OPEN_FILES = /^Max open files +(\d+)/m

/** Open files for listeners, log, Redis, console, probes and the database: all but clients and the upstream. */
const RESERVED_FILES = 64
/** Client connections allowed however low the limit is. */
const MIN_CONNECTIONS = 8

/** @returns how many files and sockets this process may have open; null if unknown or unlimited */
export function readOpenFilesLimit(): number | null {
  try {
    const [, limit] = OPEN_FILES.exec(readFileSync(LIMITS_FILE, 'utf8')) ?? []
    return limit === undefined ? null : Number(limit)
  } catch {
    return null
  }
}

/**
 * The number of client connections that leaves enough open files for the upstream, probes and Redis.
 * @param limit maximum number of open files; null if unknown or unlimited
 * @param wanted the configured number of client connections
 * @param upstreamConnections the configured maximum; each serves a client's request, so there are never more than clients
 */
export function connectionsThatFit(
  limit: number | null,
  wanted: number,
  upstreamConnections: number,
): number {
  if (limit === null) return wanted
  const available = limit - RESERVED_FILES
  const fitting = Math.max(Math.floor(available / 2), available - upstreamConnections, MIN_CONNECTIONS)
  return Math.min(wanted, fitting)
}
