import type { UpstreamClient } from './connection.ts'
import type { UpstreamExchange } from './exchange.ts'

/**
 * The clients of the upstream, each with one connection: taken for an exchange and given back after it. undici's Pool
 * searches all of them for each request, and wraps each handler once more.
 */
export class UpstreamClients {
  readonly #make: () => UpstreamClient
  readonly #all = new Set<UpstreamClient>()
  /** Each for one exchange; closed after it. */
  readonly #temporary = new Set<UpstreamClient>()
  /** The one used last is taken first: its connection is the least likely to have gone stale. */
  readonly #free: UpstreamClient[] = []

  constructor(make: () => UpstreamClient) {
    this.#make = make
  }

  take(): UpstreamClient {
    return this.#free.pop() ?? this.#add()
  }

  /** @param broken whether its exchange failed: it may be busy with the loss of its connection, and is taken last */
  giveBack(client: UpstreamClient, broken: boolean): void {
    if (this.#temporary.has(client)) return
    if (broken) this.#free.unshift(client)
    else this.#free.push(client)
  }

  /** For one exchange on a new connection. */
  carryOnce(exchange: UpstreamExchange): void {
    const client = this.#add()
    this.#temporary.add(client)
    client.carry(exchange, true)
    void client.close().finally(() => {
      this.#all.delete(client)
      this.#temporary.delete(client)
    })
  }

  /** Open connections, and those of them that are not in use. */
  figures(): { open: number; free: number } {
    const open = [...this.#all].filter(client => client.isConnected).length
    return { open, free: this.#free.filter(client => client.isConnected).length }
  }

  destroy(): void {
    for (const client of this.#all) void client.destroy()
  }

  #add(): UpstreamClient {
    const client = this.#make()
    this.#all.add(client)
    return client
  }
}
