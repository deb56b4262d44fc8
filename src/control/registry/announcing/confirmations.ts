import { REVOCATION_TIMING } from '../../../domain/revocation-timing.ts'
import type { Timers } from '../../timers.ts'
import type { GatewayStatus, KeyRepository } from '../database/key-repository.ts'

/** Which gateways have applied a change to a key. */
export interface Confirmations {
  /** Gateways that reported within the last minute: the sum of the three below. */
  readonly known: number
  /** Gateways that have stated that they applied it. */
  readonly confirmed: number
  /** Disconnected gateways: they verify each key before they accept it, so the change holds there too. */
  readonly verifying: number
  /** Gateways that have not confirmed the change. */
  readonly silent: readonly SilentGateway[]
}

export interface SilentGateway {
  readonly name: string
  readonly lastSeenAtMs: number
}

export interface CommittedChange {
  readonly digest: string
  readonly version: number
  readonly committedAtMs: number
}

const { gatewayExpiryMs, confirmationTimeoutMs } = REVOCATION_TIMING
const POLL_INTERVAL_MS = 25

/**
 * A gateway that was disconnected after the commit has trusted, since then, only what it verified afterwards.
 * @param gateways all that have reported
 */
export function summarizeConfirmations(
  gateways: readonly GatewayStatus[],
  committedAtMs: number,
  nowMs: number,
): Confirmations {
  const live = gateways.filter(({ seenAtMs }) => nowMs - seenAtMs < gatewayExpiryMs)
  const unconfirmed = live.filter(gateway => !gateway.confirmed)
  const silent = unconfirmed.filter(({ disconnectedAtMs }) => disconnectedAtMs < committedAtMs)
  return {
    known: live.length,
    confirmed: live.length - unconfirmed.length,
    verifying: unconfirmed.length - silent.length,
    silent: silent.map(({ name, seenAtMs }) => ({ name, lastSeenAtMs: seenAtMs })),
  }
}

interface Parts {
  readonly repository: KeyRepository
  readonly clock: { wallMs(): number }
  readonly timers: Timers
}

export async function readConfirmations(
  { repository, clock }: Parts,
  change: CommittedChange,
): Promise<Confirmations> {
  const gateways = await repository.listGatewayStatuses(change)
  return summarizeConfirmations(gateways, change.committedAtMs, clock.wallMs())
}

/**
 * Waits until at least one gateway is known and all have confirmed, for up to a second.
 * @param announced false if no gateway can have received the change yet
 */
export async function awaitConfirmations(
  parts: Parts,
  change: CommittedChange,
  announced: boolean,
): Promise<Confirmations> {
  let isLate = false
  const cancel = parts.timers.after(confirmationTimeoutMs, () => {
    isLate = true
  })
  try {
    for (;;) {
      const confirmations = await readConfirmations(parts, change)
      if (isLate || isComplete(confirmations, announced)) return confirmations
      await new Promise<void>(resolve => void parts.timers.after(POLL_INTERVAL_MS, resolve))
    }
  } finally {
    cancel()
  }
}

/**
 * Whether waiting can bring nothing more. A gateway that starts or reconnects may be unknown or verifying for a moment
 * and then confirm; it cannot confirm a change that was not announced.
 */
function isComplete({ known, verifying, silent }: Confirmations, announced: boolean): boolean {
  return known > 0 && silent.length === 0 && (verifying === 0 || !announced)
}
