import { describe, expect, test } from 'vitest'
import {
  brokenRequirements,
  REVOCATION_TIMING,
  type RevocationTiming,
} from '../../src/domain/revocation-timing.ts'

test('the times of gateways and console meet every requirement of the guarantee', () => {
  expect(brokenRequirements(REVOCATION_TIMING)).toEqual([])
})

test('the bounds are the documented ones', () => {
  expect(REVOCATION_TIMING).toMatchObject({ connectedBoundMs: 1_000, disconnectedBoundMs: 2_000 })
})

describe('each requirement limits the times it names', () => {
  test.each<[string, Partial<RevocationTiming>]>([
    ['two heartbeats may be lost before a gateway is disconnected', { heartbeatPeriodMs: 334 }],
    [
      'a change announced too late stops the heartbeats in time: even a late last one counts no longer than the bound',
      { maxPendingMs: 251 },
    ],
    [
      'a change announced too late stops the heartbeats in time: even a late last one counts no longer than the bound',
      { lateAfterMs: 751 },
    ],
    [
      'a disconnected gateway uses a record verified just before a change for less than the bound',
      { disconnectedTrustMs: 1_001 },
    ],
    [
      'a record read from Redis while the key service was skipped is verified soon after the key service is back',
      { keyServiceSkippedAgeMs: 249 },
    ],
    [
      'a lost connection is noticed within one heartbeat, also if no request arrives',
      { watchIntervalMs: 301 },
    ],
    [
      'a response waits for the announcement no longer than a connected gateway may take',
      { announceTimeoutMs: 1_001 },
    ],
    ['confirmations arrive while the response to a revocation waits for them', { confirmationGatherMs: 101 }],
    [
      'a gateway that disconnects reports it while the response waits',
      { disconnectedPresenceIntervalMs: 751 },
    ],
    ['two reports of a gateway may be lost before the console forgets it', { presenceIntervalMs: 20_000 }],
  ])('%s', (statement, change) => {
    expect(brokenRequirements({ ...REVOCATION_TIMING, ...change })).toContain(statement)
  })
})
