import { readFileSync } from 'node:fs'

const LIMITS_FILE = '/proc/self/limits'
const OPEN_FILES = /^Max open files +(\d+)/m

/** For listeners, log, Redis, console, probes and the database: all but clients and the upstream. */
const RESERVED = 64
/** However low the limit is. */
const LEAST = 8

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
 * The number of client connections that leaves enough files for the upstream, probes and Redis.
 * @param upstreamConnections each belongs to a client's request, so there are never more of them than clients
 */
export function connectionsThatFit(
  limit: number | null,
  wanted: number,
  upstreamConnections: number,
): number {
  if (limit === null) return wanted
  const room = limit - RESERVED
  const fitting = Math.max(Math.floor(room / 2), room - upstreamConnections, LEAST)
  return Math.min(wanted, fitting)
}
