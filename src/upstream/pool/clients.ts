import type { UpstreamClient } from './connection.ts'
import type { UpstreamExchange } from './exchange.ts'

/**
 * The clients of the upstream, each with one connection, taken for an exchange and given back after it. undici's Pool
 * would search all of them and wrap each handler once more for each request.
 */
export class UpstreamClients {
  readonly #make: () => UpstreamClient
  readonly #all = new Set<UpstreamClient>()
  /** Clients for a single exchange, closed after it. */
  readonly #temporary = new WeakSet<UpstreamClient>()
  /** A stack: the client used last is taken first, because its connection is least likely to be stale. */
  readonly #free: UpstreamClient[] = []

  constructor(make: () => UpstreamClient) {
    this.#make = make
  }

  take(): UpstreamClient {
    return this.#free.pop() ?? this.#add()
  }

  /** @param broken whether the exchange failed: the client may still be handling the loss, and is taken last */
  giveBack(client: UpstreamClient, broken: boolean): void {
    if (this.#temporary.has(client)) return
    if (broken) this.#free.unshift(client)
    else this.#free.push(client)
  }

  /** Carries one exchange on a new connection. */
  carryOnce(exchange: UpstreamExchange): void {
    const client = this.#add()
    this.#temporary.add(client)
    exchange.sendOn(client, true)
    void client.close().finally(() => this.#all.delete(client))
  }

  /** @returns counts of open connections and of unused ones among them */
  stats(): { open: number; free: number } {
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
