import { connect as connectPlain, isIP, Socket } from 'node:net'
import { type ConnectionOptions, connect as connectEncrypted } from 'node:tls'
import { AbstractConnector, type RedisOptions } from 'ioredis'
import { withoutBrackets, withoutFinalDot } from '../domain/form/address.ts'

/** The address of a server. */
export interface Endpoint {
  readonly host: string
  readonly port: number
  /** The name expected in its certificate, if it differs from the host, such as when the host is a resolved address. */
  readonly servername?: string
}

/** Called before each connection; the result may differ each time. */
export type FindServer = () => Endpoint | Promise<Endpoint>

export const REDIS_PORT = 6379
export const SENTINEL_PORT = 26_379

/** @param text `host`, `host:port`, or an address with a scheme */
export function parseEndpoint(text: string, defaultPort: number): Endpoint {
  const url = new URL(text.includes('://') ? text : `redis://${text}`)
  return {
    host: withoutBrackets(url.hostname) || '127.0.0.1',
    port: url.port === '' ? defaultPort : Number(url.port),
  }
}

/** The name that the server's certificate must carry; undefined for an IP address, which TLS does not accept as a name. */
export function findServername({ host, servername = host }: Endpoint): string | undefined {
  return isIP(servername) === 0 ? withoutFinalDot(servername) : undefined
}

export function isSameServer(one: Endpoint | null, other: Endpoint | null): boolean {
  return one !== null && other !== null && one.host === other.host && one.port === other.port
}

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
    return this.#open().catch((error: Error) => {
      this.firstError = error
      this.stream = new Socket().destroy()
      return this.stream
    })
  }

  async #open(): Promise<Socket> {
    const { find, tls, onSocket = () => {} } = this.#parts
    const server = await find()
    // The client was disconnected while the server was being found.
    if (!this.connecting) throw new Error('Connection is closed.')
    // ioredis listens for the first error only; a second one, such as the alert of a server whose certificate was rejected,
    // would end the process.
    const socket = openSocket(server, tls()).on('error', () => {})
    // At once: `disconnect` ends this stream, and may be called before the caller has it.
    this.stream = socket
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
 * A connector of the nodes of a cluster: ioredis makes a client for each, and one for each query of the slots.
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
  const servername = findServername(server)
  return connectEncrypted({ ...tls, host, port, ...(servername === undefined ? {} : { servername }) })
}
