import { Circuit, type CircuitSettings } from '../../domain/circuit.ts'
import type { Clock } from '../../domain/clock.ts'
import type { KeyTier, TierAnswer } from '../key-store.ts'
import { askTier } from './ask-tier.ts'

/** Look-ups go out together, and where this process was held up for longer than their deadline they fail together. */
const MOMENT_MS = 20

/** A tier that is not asked for a while where it does not answer. */
export interface BreakingTier extends KeyTier {
  /** Whether it is passed over now. */
  readonly isOpen: boolean
  /** To be called a few times a second: this is what finds out that the tier is back. */
  watch(): void
}

/**
 * Passes over a tier that could not be reached so many times in a row. No look-up waits to find out whether it is back, and
 * none has to come for that: a probe goes out by itself, one at a time, for the key that was asked for last. What is wrong
 * with one key alone never opens it.
 */
export function withBreaker(tier: KeyTier, settings: CircuitSettings, clock: Clock): BreakingTier {
  const circuit = new Circuit({ ...settings, momentMs: MOMENT_MS })
  const withheld = new Error(`The ${tier.name} did not answer, and is not asked for a while`)
  let lastDigest = ''

  async function ask(digest: string): Promise<TierAnswer> {
    const answer = await askTier(tier, digest)
    if (answer.kind !== 'failed' || answer.why === 'unusable') circuit.succeeded()
    else if (answer.why === 'withheld') circuit.abandoned()
    else circuit.failed(clock.monotonicMs())
    return answer
  }

  return {
    name: tier.name,
    get isOpen() {
      return circuit.state(clock.monotonicMs()) !== 'closed'
    },
    async get(digest) {
      lastDigest = digest
      if (this.isOpen) return { kind: 'failed', error: withheld, why: 'withheld' }
      return await ask(digest)
    },
    watch() {
      const nowMs = clock.monotonicMs()
      if (circuit.state(nowMs) === 'half_open' && circuit.admits(nowMs)) void ask(lastDigest)
    },
  }
}
