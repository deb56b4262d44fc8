import { Socket } from 'node:net'
import type pg from 'pg'
import { withoutFinalDot } from '../../../domain/address/host-name.ts'

/**
 * The driver sends its host as the server's name in TLS, and a final dot with it. So it gets a name without the dot, and a
 * socket that resolves the one with it.
 */
export function hostOf(name: string): Pick<pg.ClientConfig, 'host' | 'stream'> {
  const host = withoutFinalDot(name)
  return host === name || name.startsWith('/') ? { host: name } : { host, stream: () => new SocketTo(name) }
}

class SocketTo extends Socket {
  readonly #host: string

  constructor(host: string) {
    super()
    this.#host = host
  }

  /** The driver calls it with a port and its own host. */
  override connect(...[port]: unknown[]): this {
    return super.connect(Number(port), this.#host)
  }
}
