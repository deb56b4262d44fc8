/** Every time of the revocation guarantee, in milliseconds. */
export interface RevocationTiming {
  /** A gateway that is connected to the invalidation channel rejects a revoked key within this. */
  readonly connectedBoundMs: number
  /** A disconnected gateway rejects it within this, as long as the key service answers. */
  readonly disconnectedBoundMs: number

  /** The console publishes a heartbeat this often. */
  readonly heartbeatPeriodMs: number
  /** Heartbeats pause while a committed change stays unannounced for longer than this. */
  readonly maxPendingMs: number
  /** A heartbeat that took this much longer than the fastest one of its sender does not count. */
  readonly lateAfterMs: number
  /** A gateway that receives no heartbeat for this long is disconnected. */
  readonly disconnectedAfterMs: number
  /** A gateway checks its connection and its circuit breakers this often, also if no request arrives. */
  readonly watchIntervalMs: number
  /** A disconnected gateway uses a record for at most this long after the lookup that verified it began. */
  readonly disconnectedTrustMs: number
  /** A record read from Redis while the circuit of the key service is open counts as this old. */
  readonly keyServiceSkippedAgeMs: number
  /** A read replica of the key service's database may lag this far behind its announcements. */
  readonly keyServiceLagMs: number

  /** A gateway collects changes for this long before it confirms them in one call. */
  readonly confirmationGatherMs: number
  /** The response to a revocation waits this long for the change to be announced. */
  readonly announceTimeoutMs: number
  /** The response to a revocation waits this long for confirmations, if the caller asks for them. */
  readonly confirmationTimeoutMs: number
  /** A connected gateway reports to the console this often, also if nothing changes. */
  readonly presenceIntervalMs: number
  /** A disconnected gateway reports this often, so that the console does not wait for its confirmations. */
  readonly disconnectedPresenceIntervalMs: number
  /** The console forgets a gateway that has not reported for this long. */
  readonly gatewayExpiryMs: number
}

export const REVOCATION_TIMING: RevocationTiming = {
  connectedBoundMs: 1_000,
  disconnectedBoundMs: 2_000,
  heartbeatPeriodMs: 300,
  maxPendingMs: 250,
  lateAfterMs: 750,
  disconnectedAfterMs: 1_000,
  watchIntervalMs: 250,
  disconnectedTrustMs: 1_000,
  keyServiceSkippedAgeMs: 750,
  keyServiceLagMs: 60_000,
  confirmationGatherMs: 20,
  announceTimeoutMs: 1_000,
  confirmationTimeoutMs: 1_000,
  presenceIntervalMs: 5_000,
  disconnectedPresenceIntervalMs: 500,
  gatewayExpiryMs: 60_000,
}

interface Requirement {
  readonly statement: string
  readonly holds: (timing: RevocationTiming) => boolean
}

const REQUIREMENTS: readonly Requirement[] = [
  {
    statement: 'two heartbeats may be lost before a gateway is disconnected',
    holds: t => 3 * t.heartbeatPeriodMs < t.disconnectedAfterMs,
  },
  {
    statement:
      'a change announced too late stops the heartbeats in time: even a late last one counts no longer than the bound',
    holds: t => t.maxPendingMs + t.lateAfterMs + t.disconnectedAfterMs <= t.disconnectedBoundMs,
  },
  {
    statement: 'a disconnected gateway uses a record verified just before a change for less than the bound',
    holds: t => t.disconnectedTrustMs <= t.disconnectedBoundMs - t.disconnectedAfterMs,
  },
  {
    statement:
      'a record read from Redis while the key service was skipped is verified soon after the key service is back',
    holds: t =>
      t.keyServiceSkippedAgeMs < t.disconnectedTrustMs &&
      t.watchIntervalMs + t.disconnectedTrustMs - t.keyServiceSkippedAgeMs <= t.disconnectedTrustMs,
  },
  {
    statement: 'a lost connection is noticed within one heartbeat, also if no request arrives',
    holds: t => t.watchIntervalMs <= t.heartbeatPeriodMs,
  },
  {
    statement: 'a response waits for the announcement no longer than a connected gateway may take',
    holds: t => t.announceTimeoutMs <= t.connectedBoundMs,
  },
  {
    statement: 'confirmations arrive while the response to a revocation waits for them',
    holds: t => t.confirmationGatherMs <= t.confirmationTimeoutMs / 10,
  },
  {
    statement: 'a gateway that disconnects reports it while the response waits',
    holds: t => t.disconnectedPresenceIntervalMs + t.watchIntervalMs <= t.confirmationTimeoutMs,
  },
  {
    statement: 'two reports of a gateway may be lost before the console forgets it',
    holds: t => 3 * t.presenceIntervalMs < t.gatewayExpiryMs,
  },
]

/** @returns the statements of the requirements that these times break */
export function brokenRequirements(timing: RevocationTiming): string[] {
  return REQUIREMENTS.filter(({ holds }) => !holds(timing)).map(({ statement }) => statement)
}
