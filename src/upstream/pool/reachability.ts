import { setTimeout as wait } from 'node:timers/promises'
import { type ConnectDeps, connectToUpstream } from './connector.ts'

/** How long it counts what a request or an attempt has shown. */
const FRESH_MS = 5_000
/** How long a caller waits for an attempt to connect. */
const MAX_WAIT_MS = 200

/** `unknown`: there was no request, and an attempt to connect has no result yet. */
type Reached = 'unknown' | 'ok' | 'down'

/** Whether the upstream can be reached, for operators: as requests have shown or, if there are none, by a connection of its own. */
export class Reachability {
  readonly #connect: () => Promise<boolean>
  readonly #nowMs: () => number
  #found: Reached = 'unknown'
  #foundAtMs = Number.NEGATIVE_INFINITY
  #attempt: Promise<void> | null = null

  /**
   * @param connect resolves to whether a connection was made; never rejects
   * @param nowMs monotonic
   */
  constructor(connect: () => Promise<boolean>, nowMs: () => number) {
    this.#connect = connect
    this.#nowMs = nowMs
  }

  note(found: Exclude<Reached, 'unknown'>, nowMs: number): void {
    this.#found = found
    this.#foundAtMs = nowMs
  }

  async check(): Promise<Reached> {
    if (this.#nowMs() - this.#foundAtMs >= FRESH_MS) {
      this.#attempt ??= this.#try()
      await Promise.race([this.#attempt, wait(MAX_WAIT_MS, undefined, { ref: false })])
    }
    return this.#found
  }

  async #try(): Promise<void> {
    const isConnected = await this.#connect()
    this.note(isConnected ? 'ok' : 'down', this.#nowMs())
    this.#attempt = null
  }
}

/** Opens a connection as requests do, with TLS if they use it, and closes it. */
export function canConnect(deps: ConnectDeps, { hostname, protocol, port }: URL): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  connectToUpstream(deps, { hostname, protocol, port, accepts: () => true }, (_error, socket) => {
    socket?.destroy()
    resolve(socket !== null)
  })
  return promise
}
