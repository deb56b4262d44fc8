import type { Server } from 'node:http'
import type { FailureLog } from '../observability/failure-log.ts'

/** Closes new connections above `max` at once, so that they do not starve the open ones. */
export function limitConnections(server: Server, max: number, failures: FailureLog): void {
  server.maxConnections = max
  const full = new Error(`connection limit (${max}) reached; closing new connections`)
  server.on('drop', () => failures.failed(full))
  server.on('connection', () => failures.succeeded())
}
