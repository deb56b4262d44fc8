import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/** At once, and with all that the kernel still holds for the client; over TLS there is no such way. */
export function disconnect(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy()
  else socket.resetAndDestroy()
}
