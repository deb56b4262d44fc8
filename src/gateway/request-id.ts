import { randomUUID } from 'node:crypto'

const HARMLESS = /^[A-Za-z0-9._-]{1,128}$/

/**
 * @param sent `X-Request-Id` as Node reads it: with several fields it holds a comma, which is not harmless
 * @returns the client's own id if it is harmless in a log line, else a new one
 */
export function requestIdOf(sent: string | readonly string[] | undefined): string {
  return typeof sent === 'string' && HARMLESS.test(sent) ? sent : randomUUID()
}
