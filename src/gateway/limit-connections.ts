import type { Server } from 'node:http'
import type { TroubleLog } from '../observability/trouble-log.ts'

/** Above so many, a new connection is closed at once: whoever is connected already goes on as before. */
export function limitConnections(server: Server, max: number, trouble: TroubleLog): void {
  server.maxConnections = max
  const full = new Error(`${max} are open, which is as many as may be: further ones are closed at once`)
  server.on('drop', () => trouble.failed(full))
  server.on('connection', () => trouble.works())
}
