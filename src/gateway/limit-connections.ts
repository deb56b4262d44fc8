import type { Server } from 'node:http'
import type { TroubleLog } from '../observability/trouble-log.ts'

/** Closes new connections above `max` at once, so that they do not starve the open ones. */
export function limitConnections(server: Server, max: number, trouble: TroubleLog): void {
  server.maxConnections = max
  const full = new Error(`connection limit (${max}) reached; closing new connections`)
  server.on('drop', () => trouble.failed(full))
  server.on('connection', () => trouble.works())
}
