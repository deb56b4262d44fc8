import { setImmediate as polled, setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Config } from '../config/schema/schema.ts'

/** How often connections that have become idle are closed during a drain. */
const SWEEP_MS = 50

/**
 * serving: normal operation. leaving: no longer ready; new requests are still served, and their connections close.
 * closing: the listener is closed; requests in flight complete.
 */
type DrainPhase = 'serving' | 'leaving' | 'closing'

/** Shuts down without losing a request: reports not ready, waits, closes listeners, completes requests, closes connections. */
export class Drain {
  phase: DrainPhase = 'serving'
  /** Whether requests in flight were cut off. */
  hasTimedOut = false
  readonly #config: Config['drain']
  readonly #logger: Logger
  readonly #onLeaving: () => void
  /** When connections with requests in flight are closed; monotonic, ms. */
  #closeAllAtMs = Number.POSITIVE_INFINITY

  constructor(config: Config['drain'], logger: Logger, onLeaving: () => void) {
    this.#config = config
    this.#logger = logger
    this.#onLeaving = onLeaving
  }

  /** @param apps the public listeners, closed together after `drain.delayMs` */
  async run(reason: string, apps: readonly FastifyInstance[]): Promise<void> {
    this.phase = 'leaving'
    this.#onLeaving()
    this.#logger.info({ reason, delayMs: this.#config.delayMs }, 'draining')
    await sleep(this.#config.delayMs)
    this.#closeAllAtMs = performance.now() + this.#config.timeoutMs
    await this.close(apps)
  }

  /** Closes listeners together. All calls share one `drain.timeoutMs`, which begins with the first. */
  async close(apps: readonly FastifyInstance[]): Promise<void> {
    await Promise.all(apps.map(app => this.#close(app)))
  }

  /**
   * A connection that looks idle may have an unread request, which closing would reset. `setImmediate` runs after the event
   * loop has read all received bytes.
   */
  async #close(app: FastifyInstance): Promise<void> {
    const { server } = app
    const sweep = setInterval(() => setImmediate(() => server.closeIdleConnections()), SWEEP_MS)
    const closeAll = () => {
      this.hasTimedOut = true
      this.#logger.warn({ timeoutMs: this.#config.timeoutMs }, 'drain timed out, closing connections')
      server.closeAllConnections()
    }
    const deadline = setTimeout(closeAll, Math.max(0, this.#closeAllAtMs - performance.now()))
    try {
      await polled()
      const { promise: ended, resolve } = Promise.withResolvers<void>()
      // Fastify would close the server some turns of the event loop later.
      server.close(() => resolve())
      this.phase = 'closing'
      await Promise.all([ended, app.close()])
    } finally {
      clearInterval(sweep)
      clearTimeout(deadline)
    }
  }
}
