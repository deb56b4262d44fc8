import { describe, expect, test } from 'vitest'
import {
  type ChannelState,
  type EntryTrust,
  type KnownVersions,
  type MemoryEntry,
  mayJoin,
  type StoreResult,
  type StoreTrust,
  trustEntry,
  trustStore,
} from '../../../src/keys/tiers/trust.ts'
import { grantOf } from '../../support/key-records.ts'

const VERIFIED_AT_MS = 1_000_000
const LIMITS = { ttlMs: 30_000, absentTtlMs: 5_000, staleMs: 300_000 }
const HELD: MemoryEntry = {
  grant: grantOf({ version: 5 }),
  verifiedAtMs: VERIFIED_AT_MS,
  epoch: 7,
  jitterPercent: 0,
  keyServiceSkipped: false,
}

function later(ageMs: number, more: Partial<ChannelState> = {}): ChannelState {
  return { nowMs: VERIFIED_AT_MS + ageMs, isConnected: true, epoch: 7, ...more }
}

const away = { isConnected: false }
const absent = { grant: null }
const skipped = { keyServiceSkipped: true }

describe('an entry of memory', () => {
  test.each<[string, Partial<MemoryEntry>, ChannelState, EntryTrust]>([
    ['a record within its time to live', {}, later(29_999), 'fresh'],
    ['a record past its time to live', {}, later(30_000), 'stale'],
    ['a record whose jitter has ended its life', { jitterPercent: 100 }, later(27_000), 'stale'],
    ['a record whose jitter has not', { jitterPercent: 100 }, later(26_999), 'fresh'],
    ['a record of another epoch', {}, later(1, { epoch: 8 }), 'stale'],
    ['a record while disconnected, within a second', {}, later(1_000, away), 'fresh'],
    ['a record while disconnected, after a second', {}, later(1_001, away), 'stale'],
    ['a record while disconnected, with jitter', { jitterPercent: 100 }, later(701, away), 'stale'],
    ['a record of Redis with the key service skipped, connected', skipped, later(29_999), 'fresh'],
    ['a record of Redis with the key service skipped, within 250 ms', skipped, later(250, away), 'fresh'],
    ['a record of Redis with the key service skipped, after 250 ms', skipped, later(251, away), 'stale'],
    ['a record at the bound of staleness', {}, later(300_000), 'stale'],
    ['a record past the bound of staleness', {}, later(300_001), 'expired'],
    ['an old record of another epoch', {}, later(300_001, { epoch: 8 }), 'expired'],
    ['an absence within its time', absent, later(4_999), 'fresh'],
    ['an absence past its time: never stale', absent, later(5_000), 'expired'],
    ['an absence of another epoch', absent, later(1, { epoch: 8 }), 'expired'],
    ['an absence while disconnected, within a second', absent, later(1_000, away), 'fresh'],
    ['an absence while disconnected, after a second', absent, later(1_001, away), 'expired'],
  ])('%s', (_what, held, now, trust) => {
    expect(trustEntry({ ...HELD, ...held }, now, LIMITS)).toBe(trust)
  })

  test('is never stale if no staleness is allowed', () => {
    const never = { ...LIMITS, staleMs: 0 }
    expect(trustEntry(HELD, later(30_000), never)).toBe('expired')
    expect(trustEntry(HELD, later(0, { epoch: 8 }), never)).toBe('expired')
  })

  test('is never fresh with a time to live of 0', () => {
    expect(trustEntry(HELD, later(0), { ...LIMITS, ttlMs: 0 })).toBe('stale')
  })
})

const NOTHING: KnownVersions = { announced: null, held: null }
const NOW = later(0)
const justNow = (version: number) => ({ version, knownAtMs: NOW.nowMs })
const aMinuteAgo = (version: number) => ({ version, knownAtMs: NOW.nowMs - 60_000 })
const longAgo = (version: number) => ({ version, knownAtMs: NOW.nowMs - 60_001 })

describe('the result of a store', () => {
  const asked = (ageMs: number) => ({ askedAtMs: NOW.nowMs - ageMs })
  const answer: StoreResult = {
    tier: 'redis',
    grant: grantOf({ version: 5 }),
    epoch: 7,
    isSuperseded: false,
    ...asked(0),
  }
  const keyService = { tier: 'key_service' } as const
  const denial = { ...keyService, grant: null }

  test.each<[string, Partial<StoreResult>, Partial<KnownVersions>, StoreTrust]>([
    ['a record of Redis', {}, {}, 'fresh'],
    ['a record of the key service', keyService, {}, 'fresh'],
    ['an absence from the key service', denial, {}, 'fresh'],
    ['Redis, with the announced version', {}, { announced: justNow(5) }, 'fresh'],
    ['Redis, behind a recent announcement', {}, { announced: justNow(6) }, 'outdated'],
    ['Redis, behind an old announcement', {}, { announced: longAgo(6) }, 'outdated'],
    ['Redis, behind the entry of memory', {}, { held: longAgo(6) }, 'outdated'],
    [
      'the key service, behind what was announced a minute ago',
      keyService,
      { announced: aMinuteAgo(6) },
      'outdated',
    ],
    ['the key service, behind an old announcement', keyService, { announced: longAgo(6) }, 'fresh'],
    ['the key service, behind an entry a minute old', keyService, { held: aMinuteAgo(6) }, 'outdated'],
    ['the key service, behind an old entry', keyService, { held: longAgo(6) }, 'fresh'],
    ['an absence of a key announced a minute ago', denial, { announced: aMinuteAgo(1) }, 'outdated'],
    ['an absence of a key announced long ago', denial, { announced: longAgo(1) }, 'fresh'],
    ['an absence of a key in memory: the key service decides', denial, { held: justNow(5) }, 'fresh'],
    ['Redis, superseded', { isSuperseded: true }, {}, 'superseded'],
    ['the key service, superseded', { ...keyService, isSuperseded: true }, {}, 'superseded'],
    ['an absence, superseded', { ...denial, isSuperseded: true }, {}, 'superseded'],
    ['Redis, superseded and behind', { isSuperseded: true }, { announced: justNow(6) }, 'outdated'],
    ['Redis, asked in another epoch', { epoch: 6 }, {}, 'superseded'],
    ['the key service, asked in another epoch', { ...keyService, epoch: 6 }, {}, 'fresh'],
    ['an absence, asked for in another epoch', { ...denial, epoch: 6 }, {}, 'fresh'],
    [
      'the key service, asked less than two seconds ago in another epoch',
      { ...keyService, epoch: 6, ...asked(1_999) },
      {},
      'fresh',
    ],
    [
      'the key service, asked earlier in another epoch',
      { ...keyService, epoch: 6, ...asked(2_000) },
      {},
      'superseded',
    ],
    [
      'an absence, asked for earlier in another epoch',
      { ...denial, epoch: 6, ...asked(2_000) },
      {},
      'superseded',
    ],
    [
      'the key service, slow while the channel was connected',
      { ...keyService, ...asked(2_000) },
      {},
      'fresh',
    ],
  ])('%s', (_what, change, known, trust) => {
    expect(trustStore({ ...answer, ...change }, NOW, { ...NOTHING, ...known })).toBe(trust)
  })

  test.each<[string, Partial<StoreResult>, StoreTrust]>([
    ['a record of Redis', asked(2_000), 'fresh'],
    ['the key service, asked less than two seconds ago', { ...keyService, ...asked(1_999) }, 'fresh'],
    ['the key service, asked earlier', { ...keyService, ...asked(2_000) }, 'superseded'],
  ])('while disconnected: %s', (_what, change, trust) => {
    expect(trustStore({ ...answer, ...change }, { ...NOW, ...away }, NOTHING)).toBe(trust)
  })
})

describe('a lookup in flight', () => {
  test.each<[string, ChannelState, boolean]>([
    ['is joined while connected, however long it takes', later(30_000), true],
    ['is not joined in another epoch', later(1, { epoch: 8 }), false],
    ['is joined while disconnected within a second', later(1_000, away), true],
    ['is not joined while disconnected after a second', later(1_001, away), false],
  ])('%s', (_what, now, joins) => {
    expect(mayJoin(later(0), now)).toBe(joins)
  })
})
