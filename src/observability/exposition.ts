import { setTimeout as sleep } from 'node:timers/promises'

/** Rendering takes some milliseconds in which no request is served: a tenth of the time at most goes into it. */
const PERIOD_MS = 100
/** So many in a row are rendered at once: a person who looks, a test, two Prometheuses at the same moment. */
const BURST = 10

/** The text that a scrape shows. However often it is asked for, it is rendered seldom, and never older than the question. */
export class Exposition {
  readonly #render: () => Promise<string>
  /** A rendering that has not begun: whoever asks may wait for it. */
  #next: Promise<string> | null = null
  /** When the burst would be used up had it been used evenly; monotonic. */
  #owedUntilMs = Number.NEGATIVE_INFINITY

  constructor(render: () => Promise<string>) {
    this.#render = render
  }

  text(): Promise<string> {
    this.#next ??= this.#renderInTurn()
    return this.#next
  }

  async #renderInTurn(): Promise<string> {
    const waitMs = this.#owedUntilMs - BURST * PERIOD_MS - performance.now()
    await (waitMs > 0 ? sleep(waitMs) : Promise.resolve())
    this.#next = null
    this.#owedUntilMs = Math.max(this.#owedUntilMs, performance.now()) + PERIOD_MS
    return this.#render()
  }
}
