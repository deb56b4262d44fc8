import { Circuit, type CircuitSettings } from '../../domain/circuit.ts'
import type { Clock } from '../../domain/clock.ts'
import type { KeyTier, TierAnswer } from '../key-store.ts'
import { getSafely } from './get-safely.ts'

/** Lookups that fail within this time count once: a pause of this process makes many of them miss their deadline. */
const ONE_FAILURE_MS = 20

/** A store that lookups skip while its circuit is open. */
export interface BreakingTier extends KeyTier {
  readonly isOpen: boolean
  /** Must be called a few times a second: it sends the probe that finds out whether the store is back. */
  watch(): void
}

/**
 * Opens the circuit after several failures in a row to reach the store; an unusable answer for one key never does. Probes
 * are sent by `watch` for the key that was looked up last, one at a time, so that no request waits for one.
 */
export function withBreaker(tier: KeyTier, settings: CircuitSettings, clock: Clock): BreakingTier {
  const circuit = new Circuit({ ...settings, momentMs: ONE_FAILURE_MS })
  const skipped = new Error(`The ${tier.name} did not answer; lookups skip it for a while`)
  let lastDigest = ''

  async function get(digest: string): Promise<TierAnswer> {
    const answer = await getSafely(tier, digest)
    if (answer.kind !== 'failed' || answer.why === 'unusable') circuit.succeeded()
    else if (answer.why === 'skipped') circuit.abandoned()
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
      if (this.isOpen) return { kind: 'failed', error: skipped, why: 'skipped' }
      return await get(digest)
    },
    watch() {
      const nowMs = clock.monotonicMs()
      if (circuit.state(nowMs) === 'half_open' && circuit.admits(nowMs)) void get(lastDigest)
    },
  }
}
