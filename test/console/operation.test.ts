import { beforeEach, expect, test } from 'vitest'
import { Outbox } from '../../src/console/announcing/outbox.ts'
import { createInEachRegion } from '../../src/console/announcing/regions.ts'
import { changeSelected } from '../../src/console/keys/bulk-change.ts'
import type { Registry } from '../../src/console/keys/index.ts'
import { type PlannedChange, runOperation } from '../../src/console/keys/operations/registry.ts'
import { DatabaseUnavailable } from '../../src/console/platform/database/database-unavailable.ts'
import { encodeOutcome } from '../../src/console/platform/http/idempotency.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { messagesOf } from '../support/messages.ts'
import { insert, openRepository, type Repository, surfacesOf } from '../support/repository.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

const clock = { wallMs: () => NOW_MS, monotonicMs: () => NOW_MS }
const idempotency = { id: 'a', request: 'r' }
const context = { caller: { actor: 'a', address: '::1', requestId: '1' }, idempotency }
let repository: Repository
let parts: Parameters<typeof runOperation>[0]

beforeEach(async () => {
  repository = await openRepository('sqlite::memory:', clock)
  const messages = messagesOf(clock)
  const shared = { messages, timers: new ManualTimers(), logger: silentLogger, random: () => 0 }
  const ofDefault = new Outbox({ repository, announcer: new ScriptedAnnouncer(), clock, ...shared })
  const inEachRegion = createInEachRegion([{ name: 'default', outbox: ofDefault }])
  const surfaces = surfacesOf(repository)
  parts = { ...surfaces, inEachRegion, clock, createEvents: () => [], count: (_, run) => run() }
})

test('a repeated request that conflicts with its own first attempt gets the first response', async () => {
  const old = someKey()
  await insert(repository, old)
  const plan = async () => {
    // The first request is committed between the two looks at what was answered before.
    const outcome = encodeOutcome({ record: old.record, replaced: null })
    await repository.commit({
      issued: null,
      replaced: null,
      audit: [],
      response: { ...idempotency, outcome },
    })
    return { kind: 'not_active', state: 'retiring' } as const
  }
  const result = await runOperation(parts, 'rotate', context, plan)
  expect(result).toMatchObject({ kind: 'done', record: old.record, secret: null, replayed: true })
})

test('an operation that loses a race plans again from the new state', async () => {
  const key = someKey()
  await insert(repository, key)
  const plans: PlannedChange[] = []
  const plan = async () => {
    const stored = (await repository.findById(key.record.id)) ?? key
    const replaced = revoked(stored, NOW_MS + plans.length)
    const shared = { kind: 'planned', issued: null, audit: [], secret: null, digest: key.digest } as const
    plans.push({ ...shared, replaced, record: replaced.record })
    if (plans.length === 1) {
      await repository.commit({ issued: null, replaced: revoked(key), audit: [], response: null })
    }
    return plans.at(-1) ?? { kind: 'unknown_key' as const }
  }
  const result = await runOperation(parts, 'revoke', { ...context, idempotency: null }, plan)
  expect(plans).toHaveLength(2)
  expect(result).toMatchObject({ kind: 'done', changed: true, record: { version: 3 } })
})

test('an operation that keeps losing races fails after several attempts', async () => {
  const key = someKey()
  await insert(repository, key)
  const late = revoked(revoked(key))
  const attempt = { kind: 'planned', issued: null, replaced: late, record: late.record } as const
  const plan = async () => ({ ...attempt, digest: key.digest, audit: [], secret: null })
  await expect(runOperation(parts, 'revoke', context, plan)).rejects.toThrow(/8 attempts: other changes/)
})

test('of several keys of which other changes keep one from being changed, each has its own outcome', async () => {
  const [free, contended] = [someKey(), someKey()]
  for (const key of [free, contended]) await insert(repository, key)
  const commit: typeof parts.commit = async change =>
    change.replaced?.record.id === contended.record.id ? { kind: 'stale' } : parts.commit(change)
  let ids = 0
  const listGatewayStatuses = () => Promise.reject(new DatabaseUnavailable('timeout', 'no answer'))
  const gateways = { listGatewayStatuses }
  // What suspending several keys uses of it.
  const registry = {
    ...{ ...parts, commit, gateways, timers: new ManualTimers() },
    newAuditId: () => `audit_${ids++}`,
  } as unknown as Registry
  const keys = [free, contended].map(({ record }) => ({
    record,
    state: 'active' as const,
    lastUsedAtMs: null,
  }))
  const suspend = (some: typeof keys) =>
    changeSelected(registry, some, 'suspend', { ...context, idempotency: null })
  expect((await suspend(keys)).keys.map(({ outcome }) => outcome)).toEqual(['changed', 'gave_up'])
  expect((await suspend(keys.slice(1))).keys.map(({ outcome }) => outcome)).toEqual(['gave_up'])
})
