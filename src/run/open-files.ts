import { readFileSync } from 'node:fs'

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
