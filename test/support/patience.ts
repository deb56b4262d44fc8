import { existsSync, readFileSync } from 'node:fs'

/** A wait lasts at most this many times longer on a machine that gives programs no processor. */
const LONGEST_FACTOR = 6
const CHECK_EVERY_MS = 100
const PRESSURE_FILE = '/proc/pressure/cpu'
/** Where the system does not say how long programs waited, each wait is as long as on a busy machine. */
const KNOWS_PRESSURE = existsSync(PRESSURE_FILE)

/**
 * The deadline of a wait for an event that another program brings about: time in which the machine kept programs waiting
 * for a processor does not count, up to a limit. A bound that the product promises is never measured with it.
 */
export class Patience {
  readonly #sinceMs = performance.now()
  readonly #stalledMs = stalledMs()
  readonly #ms: number

  constructor(ms: number) {
    this.#ms = ms
  }

  get isOver(): boolean {
    const passedMs = performance.now() - this.#sinceMs
    if (passedMs <= this.#ms) return false
    if (passedMs > this.#ms * LONGEST_FACTOR) return true
    return KNOWS_PRESSURE && passedMs - (stalledMs() - this.#stalledMs) > this.#ms
  }
}

/** Calls `late` once the deadline has passed. @returns a function that cancels it */
export function whenOver(ms: number, late: () => void): () => void {
  const patience = new Patience(ms)
  const timer = setInterval(() => {
    if (!patience.isOver) return
    clearInterval(timer)
    late()
  }, CHECK_EVERY_MS)
  return () => clearInterval(timer)
}

/** @returns how long in all some program has waited for a processor (Linux, Documentation/accounting/psi.rst) */
function stalledMs(): number {
  if (!KNOWS_PRESSURE) return 0
  return Number(/^some .*total=(\d+)$/m.exec(readFileSync(PRESSURE_FILE, 'utf8'))?.[1] ?? 0) / 1_000
}
