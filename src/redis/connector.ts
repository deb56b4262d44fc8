import { connect as connectPlain, Socket } from 'node:net'
import { type ConnectionOptions, connect as connectEncrypted } from 'node:tls'
import { AbstractConnector } from 'ioredis'
import { type Endpoint, type FindServer, servernameOf } from './endpoint.ts'

/**
 * Connects to the server that `find` returns. If `find` fails, returns a destroyed socket: ioredis then retries by its
 * strategy, whereas it gives up for good when a connector throws.
 * @param tls read before each connection; null for an unencrypted one
 * @param onSocket called with each socket that is opened
 */
export function connectorTo(
  find: FindServer,
  tls: () => ConnectionOptions | null,
  disconnectTimeoutMs: number,
  onSocket: (socket: Socket) => void = () => {},
) {
  return class extends AbstractConnector {
    constructor() {
      super(disconnectTimeoutMs)
    }

    async connect(): Promise<Socket> {
      this.connecting = true
      this.stream = await this.#open().catch((error: Error) => {
        this.firstError = error
        return new Socket().destroy()
      })
      return this.stream
    }

    async #open(): Promise<Socket> {
      const server = await find()
      // The client was disconnected while the server was being found.
      if (!this.connecting) throw new Error('Connection is closed.')
      // ioredis listens for the first error only; a second one would end the process.
      const socket = openSocket(server, tls()).on('error', () => {})
      onSocket(socket)
      return socket
    }
  }
}

function openSocket(server: Endpoint, tls: ConnectionOptions | null): Socket {
  const { host, port } = server
  if (tls === null) return connectPlain({ host, port })
  const servername = servernameOf(server)
  return connectEncrypted({ ...tls, host, port, ...(servername === undefined ? {} : { servername }) })
}
