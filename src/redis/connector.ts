import { connect as connectPlain, Socket } from 'node:net'
import { type ConnectionOptions, connect as connectEncrypted } from 'node:tls'
import { AbstractConnector, type RedisOptions } from 'ioredis'
import { type Endpoint, type FindServer, REDIS_PORT, servernameOf } from './endpoint.ts'

interface ConnectorParts {
  readonly find: FindServer
  /** Read before each connection; null for an unencrypted one. */
  readonly tls: () => ConnectionOptions | null
  readonly disconnectTimeoutMs: number
  /** Called with each socket that is opened. */
  readonly onSocket?: (socket: Socket) => void
}

/**
 * Connects to the server that `find` returns. If `find` fails, returns a destroyed socket: ioredis then retries by its
 * strategy, whereas it gives up for good when a connector throws.
 */
class Connector extends AbstractConnector {
  readonly #parts: ConnectorParts

  constructor(parts: ConnectorParts) {
    super(parts.disconnectTimeoutMs)
    this.#parts = parts
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
    const { find, tls, onSocket = () => {} } = this.#parts
    const server = await find()
    // The client was disconnected while the server was being found.
    if (!this.connecting) throw new Error('Connection is closed.')
    // ioredis listens for the first error only; a second one, such as the alert of a server whose certificate was rejected,
    // would end the process.
    const socket = openSocket(server, tls()).on('error', () => {})
    onSocket(socket)
    return socket
  }
}

/** A connector of one client, whose server is found anew for each connection. */
export function connectorTo(parts: ConnectorParts) {
  return class extends Connector {
    constructor() {
      super(parts)
    }
  }
}

/** How ioredis names the connections that ask a cluster for its slots. */
const ASKS_FOR_SLOTS = 'ioredis-cluster(refresher)'

/**
 * A connector of the nodes of a cluster: ioredis makes a client for each, and one for each question for the slots.
 * @param onAsk receives the host that is asked for the slots
 */
export function connectorToNode(disconnectTimeoutMs: number, onAsk: (host: string) => void = () => {}) {
  return class extends Connector {
    /** @param options those of the client, which a reload changes */
    constructor(options: unknown) {
      // ioredis declares no type for what it passes.
      const node = options as RedisOptions
      const { host = '127.0.0.1', port = REDIS_PORT } = node
      super({ find: () => ({ host, port }), tls: () => node.tls ?? null, disconnectTimeoutMs })
      if (node.connectionName?.startsWith(ASKS_FOR_SLOTS) === true) onAsk(host)
    }
  }
}

function openSocket(server: Endpoint, tls: ConnectionOptions | null): Socket {
  const { host, port } = server
  if (tls === null) return connectPlain({ host, port })
  const servername = servernameOf(server)
  return connectEncrypted({ ...tls, host, port, ...(servername === undefined ? {} : { servername }) })
}
