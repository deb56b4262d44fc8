import type { Timers } from '../../timers.ts'
import type { GatewayHearing, KeyRepository } from '../database/key-repository.ts'

/** What the gateways have made of one change to a key. */
export interface Confirmations {
  /** All that reported within the last minute: the sum of the three below. */
  readonly known: number
  /** They have said that they applied it. */
  readonly confirmed: number
  /** They hear no changes, and so ask for each key before they let it pass: the change holds there too. */
  readonly verifying: number
  /** Nothing was heard of these about the change. */
  readonly silent: readonly SilentGateway[]
}

export interface SilentGateway {
  readonly name: string
  readonly lastSeenAtMs: number
}

/** A change that was committed. */
export interface CommittedChange {
  readonly digest: string
  readonly version: number
  readonly committedAtMs: number
}

/** A gateway that is not heard of for this long is gone; until then it may be one that is merely cut off. */
export const GATEWAY_LIFE_MS = 60_000
/** How long an answer waits for gateways to confirm. */
const PATIENCE_MS = 1_000
const ASK_EVERY_MS = 25

/**
 * A gateway that was deaf at some time after the commit has trusted, since then, only what it verified afterwards.
 * @param gateways all that were heard of
 */
export function judge(
  gateways: readonly GatewayHearing[],
  committedAtMs: number,
  nowMs: number,
): Confirmations {
  const live = gateways.filter(({ seenAtMs }) => nowMs - seenAtMs < GATEWAY_LIFE_MS)
  const unconfirmed = live.filter(gateway => !gateway.confirmed)
  const silent = unconfirmed.filter(({ deafAtMs }) => deafAtMs < committedAtMs)
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

/** What is known at this moment. */
export async function confirmationsOf(
  { repository, clock }: Parts,
  change: CommittedChange,
): Promise<Confirmations> {
  const gateways = await repository.gatewaysHearing(change)
  return judge(gateways, change.committedAtMs, clock.wallMs())
}

/**
 * @param announced whether gateways can have heard of the change
 * @returns once a gateway is known and every known one has confirmed, or what is known after a second
 */
export async function awaitConfirmations(
  parts: Parts,
  change: CommittedChange,
  announced: boolean,
): Promise<Confirmations> {
  let isLate = false
  const cancel = parts.timers.after(PATIENCE_MS, () => {
    isLate = true
  })
  try {
    for (;;) {
      const confirmations = await confirmationsOf(parts, change)
      if (isLate || isComplete(confirmations, announced)) return confirmations
      await new Promise<void>(resolve => void parts.timers.after(ASK_EVERY_MS, resolve))
    }
  } finally {
    cancel()
  }
}

/**
 * Whether nothing more is to be expected. A gateway that is starting or connecting again may be unknown or verifying for
 * a moment, and confirm in the next; what was not announced, a disconnected gateway cannot confirm.
 */
function isComplete({ known, verifying, silent }: Confirmations, announced: boolean): boolean {
  return known > 0 && silent.length === 0 && (verifying === 0 || !announced)
}
