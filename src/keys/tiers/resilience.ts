import { Circuit, type CircuitSettings } from '../../domain/circuit.ts'
import type { Clock } from '../../domain/clock.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import { handlesBy, LOOKUP_RESULTS, type Metrics } from '../../observability/metrics/metrics.ts'
import type { KeyTier, TierResult } from './key-store.ts'

/** Lookups that fail within this time count once: a pause of this process makes many of them miss their deadline. */
const MERGE_FAILURES_MS = 20

/** A store that lookups skip while its circuit is open. */
export interface BreakingTier extends KeyTier {
  readonly isOpen: boolean
  /** Sends a probe when one is due. Must be called a few times a second. */
  watch(): void
}

/**
 * Opens the circuit after several consecutive failures to reach the store; an unusable response for one key never does.
 * `watch` sends probes, one at a time, for the key that was looked up last, so that no request waits for one.
 */
export function withBreaker(tier: KeyTier, settings: CircuitSettings, clock: Clock): BreakingTier {
  const circuit = new Circuit({ ...settings, mergeFailuresMs: MERGE_FAILURES_MS })
  const skipped = new Error(`The circuit of ${tier.name} is open; lookups skip it`)
  let lastDigest = ''

  async function get(digest: string): Promise<TierResult> {
    const result = await getSafely(tier, digest)
    if (result.kind !== 'failed' || result.why === 'unusable') circuit.succeeded()
    else if (result.why === 'skipped') circuit.abandoned()
    else circuit.failed(clock.monotonicMs())
    return result
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

/** Counts the results of a store, and logs when its lookups start to fail and when they succeed again. */
export function withObservation(tier: KeyTier, metrics: Metrics, failures: FailureLog): KeyTier {
  const handles = handlesBy(LOOKUP_RESULTS, result => metrics.lookups.handle({ tier: tier.name, result }))
  return {
    name: tier.name,
    async get(digest) {
      const result = await getSafely(tier, digest)
      handles[resultLabel(result)].inc()
      if (result.kind === 'failed') failures.failed(result.error)
      else failures.succeeded()
      return result
    },
  }
}

/** Turns an exception of a store, which breaks the contract of `KeyTier`, into a failed result. */
async function getSafely(tier: KeyTier, digest: string): Promise<TierResult> {
  try {
    return await tier.get(digest)
  } catch (thrown) {
    return { kind: 'failed', error: asError(thrown), why: 'unusable' }
  }
}

function resultLabel(result: TierResult): (typeof LOOKUP_RESULTS)[number] {
  switch (result.kind) {
    case 'found':
      return 'hit'
    case 'absent':
      return 'negative'
    case 'miss':
      return result.unreadable === true ? 'unreadable' : 'miss'
    case 'failed':
      return 'error'
  }
}
