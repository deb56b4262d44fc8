import type { Timers } from '../../domain/clock.ts'
import { REVOCATION_TIMING } from '../../domain/revocation-timing.ts'
import type { GatewayRows, GatewayStatus } from './gateway-rows.ts'
import type { Announced } from './regions.ts'

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

interface SilentGateway {
  readonly name: string
  readonly lastSeenAtMs: number
}

interface CommittedChange {
  readonly digest: string
  readonly version: number
  readonly committedAtMs: number
}

const { gatewayExpiryMs, confirmationTimeoutMs } = REVOCATION_TIMING
const POLL_INTERVAL_MS = 25
/** Each look reads a row for each gateway: with many of them, it would take the time in which they confirm. */
const POLL_MS_FOR_EACH_GATEWAY = 0.2

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
  readonly gateways: Pick<GatewayRows, 'listGatewayStatuses'>
  readonly clock: { wallMs(): number }
  readonly timers: Timers
}

/** The confirmations of all gateways, and of those of each region. */
export interface ConfirmationReport extends Confirmations {
  readonly regions: readonly RegionConfirmations[]
}

interface RegionConfirmations {
  readonly name: string
  /** Whether the change was announced to it. */
  readonly announced: boolean
  readonly gateways: Confirmations
}

/** @param announced of which regions to tell */
export async function readConfirmations(
  { gateways, clock }: Pick<Parts, 'gateways' | 'clock'>,
  change: CommittedChange,
  announced: Announced,
): Promise<ConfirmationReport> {
  const statuses = await gateways.listGatewayStatuses(change)
  const summarize = (gateways: readonly GatewayStatus[]) =>
    summarizeConfirmations(gateways, change.committedAtMs, clock.wallMs())
  // Without regions in the settings, all gateways belong to the only one.
  const isIn = (region: string) => (status: GatewayStatus) =>
    announced.length === 1 || status.region === region
  return {
    ...summarize(statuses),
    regions: announced.map(({ region, announced }) => ({
      name: region,
      announced,
      gateways: summarize(statuses.filter(isIn(region))),
    })),
  }
}

/**
 * Waits until at least one gateway is known and all have confirmed, for up to a second.
 * @param announced false for a region where no gateway can have received the change yet
 */
export async function awaitConfirmations(
  parts: Parts,
  change: CommittedChange,
  announced: Announced,
): Promise<ConfirmationReport> {
  let isLate = false
  const cancel = parts.timers.after(confirmationTimeoutMs, () => {
    isLate = true
  })
  try {
    for (;;) {
      const confirmations = await readConfirmations(parts, change, announced)
      if (isLate || isComplete(confirmations)) return confirmations
      const pauseMs = Math.max(POLL_INTERVAL_MS, confirmations.known * POLL_MS_FOR_EACH_GATEWAY)
      await new Promise<void>(resolve => void parts.timers.after(pauseMs, resolve))
    }
  } finally {
    cancel()
  }
}

/**
 * Whether waiting can bring nothing more. A gateway that starts or reconnects may be unknown or verifying for a moment
 * and then confirm; it cannot confirm a change that was not announced.
 */
function isComplete({ known, silent, regions }: ConfirmationReport): boolean {
  const isVerifying = regions.some(({ announced, gateways }) => announced && gateways.verifying > 0)
  return known > 0 && silent.length === 0 && !isVerifying
}
