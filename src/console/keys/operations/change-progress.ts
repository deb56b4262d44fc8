import type { Announced } from '../../announcing/index.ts'
import {
  awaitConfirmations,
  CONFIRMATIONS_KEPT_MS,
  type ConfirmationReport,
  readConfirmations,
} from '../../announcing/index.ts'
import { troubleOf } from '../../platform/database/database-unavailable.ts'
import type { Registry } from '../registry.ts'
import type { OperationSuccess } from './run-operation.ts'

/** How far a change to a key has come: a revocation, suspension, resumption or edit. */
export interface ChangeProgress {
  readonly announced: Announced
  /**
   * Null if nothing was changed and the key is not rejected, or if it was rotated and works until its overlap ends.
   */
  readonly committedAtMs: number | null
  /** Null if another request announced it, or it is not announced yet. */
  readonly announcedAtMs: number | null
  /** Null where `committedAtMs` is, if the change is so old that confirmations were deleted, or if they cannot be read. */
  readonly gateways: ConfirmationReport | null
}

/**
 * @param success of a rotation: the progress is that of the old key
 * @param mustWait waits for up to a second until at least one gateway is known and all have confirmed
 */
export async function readChangeProgress(
  registry: Registry,
  success: OperationSuccess,
  mustWait: boolean,
): Promise<ChangeProgress> {
  const { announced, announcedAtMs } = success
  const { record, digest } = success.replaced ?? success
  const committedAtMs = committedAtOf(success)
  if (committedAtMs === null) return { announced, committedAtMs, announcedAtMs: null, gateways: null }
  const change = { digest, version: record.version, committedAtMs }
  const isKnown = registry.clock.wallMs() - committedAtMs <= CONFIRMATIONS_KEPT_MS
  const read = () =>
    mustWait
      ? awaitConfirmations(registry, change, announced)
      : readConfirmations(registry, change, announced)
  const gateways = isKnown ? await read().catch((error: unknown) => unknownAfterCommit(success, error)) : null
  return { announced, committedAtMs, announcedAtMs, gateways }
}

/** A change that this request committed must not look like a failure. */
function unknownAfterCommit({ changed }: OperationSuccess, error: unknown): null {
  if (changed && troubleOf(error) !== null) return null
  throw error
}

/** Where an earlier request made the change, its record says when. */
function committedAtOf({ record, replaced, committedAtMs }: OperationSuccess): number | null {
  if (replaced !== null && replaced.record.revokedAtMs === null) return null
  const { revokedAtMs, suspendedAtMs } = replaced?.record ?? record
  return committedAtMs ?? revokedAtMs ?? suspendedAtMs
}
