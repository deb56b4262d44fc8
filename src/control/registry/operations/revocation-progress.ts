import { awaitConfirmations, type Confirmations, readConfirmations } from '../announcing/confirmations.ts'
import { CONFIRMATIONS_KEPT_MS } from '../database/gateway-rows.ts'
import type { Registry } from '../registry.ts'
import type { OperationSuccess } from './run-operation.ts'

/** How far a revocation has come. */
export interface RevocationProgress {
  readonly announced: boolean
  /** Null if no key was revoked: it had expired, or was rotated and works until its overlap ends. */
  readonly committedAtMs: number | null
  /** Null if another request announced it, or it is not announced yet. */
  readonly announcedAtMs: number | null
  /** Null if nothing was revoked, or so long ago that confirmations were deleted. */
  readonly gateways: Confirmations | null
}

/**
 * @param success a revocation, or a rotation: then of its old key
 * @param mustWait waits for up to a second until at least one gateway is known and all have confirmed
 */
export async function readRevocationProgress(
  registry: Registry,
  success: OperationSuccess,
  mustWait: boolean,
): Promise<RevocationProgress> {
  const { announced, announcedAtMs } = success
  const { record, digest } = success.replaced ?? success
  const { version, revokedAtMs } = record
  if (revokedAtMs === null) return { announced, committedAtMs: null, announcedAtMs: null, gateways: null }
  const committedAtMs = success.committedAtMs ?? revokedAtMs
  const change = { digest, version, committedAtMs }
  const isKnown = registry.clock.wallMs() - committedAtMs <= CONFIRMATIONS_KEPT_MS
  const read = () =>
    mustWait ? awaitConfirmations(registry, change, announced) : readConfirmations(registry, change)
  return { announced, committedAtMs, announcedAtMs, gateways: isKnown ? await read() : null }
}
