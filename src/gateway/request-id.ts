import { randomUUID } from 'node:crypto'

const KEPT = /^[A-Za-z0-9._-]{1,128}$/

/** The client's own id where it sent one that is harmless in a log line, else a new one. */
export function requestIdOf(given: readonly string[]): string {
  const [id] = given
  return given.length === 1 && id !== undefined && KEPT.test(id) ? id : randomUUID()
}
