import { setImmediate as polled, setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Config } from '../config/schema.ts'

/** How often connections that have become idle are closed while the rest ends. */
const SWEEP_MS = 50

/**
 * serving: as ever. leaving: no longer ready, new requests still served, on connections that end with their answer.
 * closing: the listener is closed, requests in flight end.
 */
export type DrainPhase = 'serving' | 'leaving' | 'closing'

/** The end of a process in the order that loses no request: not ready, wait, close, let end, cut. */
export class Drain {
  phase: DrainPhase = 'serving'
  readonly #config: Config['drain']
  readonly #logger: Logger
  readonly #onLeaving: () => void
  /** Monotonic: when requests that are still in flight are cut. */
  #cutAtMs = Number.POSITIVE_INFINITY

  constructor(config: Config['drain'], logger: Logger, onLeaving: () => void) {
    this.#config = config
    this.#logger = logger
    this.#onLeaving = onLeaving
  }

  /** @param apps the public listeners, closed together once `drain.delayMs` has passed */
  async run(reason: string, apps: readonly FastifyInstance[]): Promise<void> {
    this.phase = 'leaving'
    this.#onLeaving()
    this.#logger.info({ reason, delayMs: this.#config.delayMs }, 'draining')
    await sleep(this.#config.delayMs)
    this.#cutAtMs = performance.now() + this.#config.timeoutMs
    await this.close(apps)
  }

  /** Closes listeners together. All that are closed have one `drain.timeoutMs` between them, which began with the first. */
  async close(apps: readonly FastifyInstance[]): Promise<void> {
    await Promise.all(apps.map(app => this.#close(app)))
  }

  /**
   * A connection that is idle here may have a request on its way, and be reset with it: idle is judged when the event
   * loop has just read whatever had come, which is what `setImmediate` waits for.
   */
  async #close(app: FastifyInstance): Promise<void> {
    const { server } = app
    const sweep = setInterval(() => setImmediate(() => server.closeIdleConnections()), SWEEP_MS)
    const cut = () => {
      this.#logger.warn({ timeoutMs: this.#config.timeoutMs }, 'requests still in flight are cut')
      server.closeAllConnections()
    }
    const deadline = setTimeout(cut, Math.max(0, this.#cutAtMs - performance.now()))
    try {
      await polled()
      const { promise: ended, resolve } = Promise.withResolvers<void>()
      // Fastify would come to it some turns of the event loop later.
      server.close(() => resolve())
      this.phase = 'closing'
      await Promise.all([ended, app.close()])
    } finally {
      clearInterval(sweep)
      clearTimeout(deadline)
    }
  }
}
