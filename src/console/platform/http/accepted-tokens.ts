import { hash, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../../domain/clock.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'

/** A token that is still in use is reported this often. */
const REPORT_EVERY_MS = 60_000

export interface AcceptedTokensParts {
  /** For the log. */
  readonly setting: 'console.adminToken' | 'keyService.token'
  /** The current list; a reload replaces it. */
  readonly tokens: () => readonly string[]
  readonly logger: Pick<ControlLogger, 'info'>
  readonly clock: Clock
}

/**
 * The tokens of a setting. While there are several, the log says which are in use: the first once, later ones every minute.
 * A later one that is no longer reported can be removed.
 */
export class AcceptedTokens {
  readonly #parts: AcceptedTokensParts
  #list: readonly string[] = []
  /** By position, on the monotonic clock. */
  readonly #reportedAtMs = new Map<number, number>()

  constructor(parts: AcceptedTokensParts) {
    this.#parts = parts
  }

  accept(presented: string): boolean {
    const tokens = this.#parts.tokens()
    const index = indexOfToken(presented, tokens)
    if (index >= 0 && tokens.length > 1) this.#report(tokens, index + 1)
    return index >= 0
  }

  #report(tokens: readonly string[], position: number): void {
    if (tokens !== this.#list) this.#reportedAtMs.clear()
    this.#list = tokens
    const { setting, logger, clock } = this.#parts
    const nowMs = clock.monotonicMs()
    const lastMs = this.#reportedAtMs.get(position)
    if (lastMs !== undefined && (position === 1 || nowMs - lastMs < REPORT_EVERY_MS)) return
    this.#reportedAtMs.set(position, nowMs)
    logger.info({ setting, position, of: tokens.length }, 'token in use')
  }
}

/** Compares with each in constant time. @returns -1 if it is none of them */
function indexOfToken(presented: string, tokens: readonly string[]): number {
  const digest = sha256(presented)
  const matches = tokens.map(token => timingSafeEqual(digest, sha256(token)))
  return matches.indexOf(true)
}

/** Digests have one length, so that the constant-time comparison does not reveal the token's. */
function sha256(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
