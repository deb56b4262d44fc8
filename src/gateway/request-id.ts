import { randomUUID } from 'node:crypto'

const KEPT = /^[A-Za-z0-9._-]{1,128}$/

/**
 * The client's own id where it is harmless in a log line, else a new one.
 * @param sent `X-Request-Id` as Node gives it: several are joined with a comma and a space, and so are none
 */
export function requestIdOf(sent: string | readonly string[] | undefined): string {
  return typeof sent === 'string' && KEPT.test(sent) ? sent : randomUUID()
}
