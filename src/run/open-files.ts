import { readFileSync } from 'node:fs'

const LIMITS_FILE = '/proc/self/limits'
const OPEN_FILES = /^Max open files +(\d+)/m

/** Listeners, log, Redis, console, probes, a database: all but clients and the upstream. */
const RESERVED = 64
/** A process that may open next to nothing is of some use all the same. */
const LEAST = 8

/** @returns how many files and sockets this process may have open; null where that is not known, or without bound */
export function readOpenFilesLimit(): number | null {
  try {
    const [, limit] = OPEN_FILES.exec(readFileSync(LIMITS_FILE, 'utf8')) ?? []
    return limit === undefined ? null : Number(limit)
  } catch {
    return null
  }
}

/**
 * How many clients may be connected so that the process never runs out of files: then it could neither ask the upstream
 * for those who are connected, nor answer a probe, nor read Redis.
 * @param upstreamConnections each belongs to a client's request, so there are never more of them than of clients
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
