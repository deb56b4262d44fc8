import type { UpstreamClient } from './connection.ts'

/**
 * The clients of the upstream, each with one connection: taken for an exchange and given back after it. undici's Pool
 * would look through all of them for each request, and wrap each handler once more.
 */
export class UpstreamClients {
  readonly #make: () => UpstreamClient
  readonly #all = new Set<UpstreamClient>()
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
    if (broken) this.#free.unshift(client)
    else this.#free.push(client)
  }

  /** For one exchange on a new connection. */
  takeOnce(use: (client: UpstreamClient) => void): void {
    const client = this.#add()
    use(client)
    void client.close().finally(() => this.#all.delete(client))
  }

  /** Connections that are there, and those of them that nobody uses. */
  figures(): { open: number; free: number } {
    const isOpen = (client: UpstreamClient) => client.stats.connected
    return { open: [...this.#all].filter(isOpen).length, free: this.#free.filter(isOpen).length }
  }

  /** undici promises that it cannot fail; what it breaks off has been told already. */
  destroy(): void {
    for (const client of this.#all) void client.destroy()
  }

  #add(): UpstreamClient {
    const client = this.#make()
    this.#all.add(client)
    return client
  }
}
