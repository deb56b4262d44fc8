import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/** Closes at once. Without TLS, also discards what the kernel buffers for the client: Node cannot reset a TLS socket. */
export function disconnect(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy()
  else socket.resetAndDestroy()
}
