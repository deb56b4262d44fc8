import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { countPendingChanges } from '../../src/console/announcing/index.ts'
import { startUpkeep } from '../../src/console/audit/index.ts'
import { startCountingKeys } from '../../src/console/keys/index.ts'
import { appendAudit } from '../../src/console/platform/audit/chain.ts'
import { keepUp } from '../../src/console/platform/jobs/timers.ts'
import type { ControlLogger } from '../../src/observability/control-logger.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { startConsole } from '../support/console.ts'
import { LogSpy } from '../support/log-spy.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { metricValue } from '../support/metric-value.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository, insert } from '../support/repository.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { NOW_MS, someKey } from '../support/stored-keys.ts'
import { settled, until } from '../support/until.ts'

const DAY_MS = 86_400_000

async function opened(logger: ControlLogger = silentLogger) {
  const timers = new ManualTimers()
  const clock = { wallMs: () => NOW_MS + timers.nowMs, monotonicMs: () => timers.nowMs }
  const database = await openDatabase('sqlite::memory:')
  const repository = createRepository(database, clock, 'console-1')
  return { database, repository, regionRows: repository, metrics: createMetrics(), clock, timers, logger }
}

test('pending changes are counted, with the age of the oldest', async () => {
  const parts = await opened()
  const { repository, metrics, timers } = parts
  const stop = keepUp(parts, { everyMs: 5000, work: () => countPendingChanges(parts, ['default']) })
  for (let keys = 0; keys < 3; keys++) await insert(repository, someKey())
  timers.advance(5000)
  await until('it is counted', async () => (await metricValue(metrics.outboxPending)) === 3)
  const inRegion = { region: 'default' }
  expect(await metricValue(metrics.regionPending, inRegion)).toBe(3)
  expect(await metricValue(metrics.regionPendingAge, inRegion)).toBe(5)
  await repository.deletePendingChanges(await repository.claimChanges(10))
  timers.advance(5000)
  await until('it is counted again', async () => (await metricValue(metrics.outboxPending)) === 0)
  expect(await metricValue(metrics.regionPendingAge, inRegion)).toBe(0)
  stop()
  expect(timers.nextDelayMs).toBeNull()
})

test('stored answers are deleted after a day, however many there are', async () => {
  const parts = await opened()
  const { database, repository, timers } = parts
  const stop = keepUp(parts, { everyMs: 60_000, work: () => repository.purge() })
  const kept = async () =>
    (await database.reader.selectFrom('idempotent_responses').select('id').execute()).length
  for (let answers = 0; answers < 2500; answers++) {
    const response = { id: `a${answers}`, request: 'r', outcome: '{}' }
    await repository.commit({ issued: null, replaced: null, audit: [], response })
  }
  timers.advance(DAY_MS - 60_000)
  await until('it is done', async () => (await kept()) === 2500)
  await until('they are deleted', async () => {
    timers.advance(60_000)
    return (await kept()) === 0
  })
  stop()
})

test('the head of the audit chain is logged every hour, and a head that is gone an hour later is an error', async () => {
  const log = new LogSpy()
  const parts = await opened({
    ...silentLogger,
    info: (fields: object | string, message = '') => log.info(Object(fields), message),
    error: (fields: object | string, message = '') => log.error(Object(fields), message),
  })
  const { database, metrics, timers } = parts
  const stop = startUpkeep(parts)
  const append = (id: string) =>
    database.writer.transaction().execute(tx => {
      const about = { workspaceId: 'ws_1', keyId: 'key_1', action: 'key.issued' as const, detail: {} }
      return appendAudit(tx, [{ id, atMs: NOW_MS, actor: 'admin-token', ...about }], database)
    })
  const hour = async (count: number) => {
    await until('the head is noted', () => log.count('audit head') === count)
    timers.advance(3_600_000)
    await until('it is noted again', () => log.count('audit head') === count + 1)
  }
  await append('audit_1')
  await append('audit_2')
  await hour(1)
  await hour(2)
  expect(log.lines.at(-1)?.fields).toMatchObject({
    sequence: 2,
    hash: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
  expect(await metricValue(metrics.auditHeadsLost)).toBe(0)
  // The newest entry is cut off with its head, and another one takes its place.
  await sql`drop trigger audit_refuses_delete`.execute(database.writer)
  await sql`delete from audit where sequence = 2`.execute(database.writer)
  await sql`update audit_head set sequence = 1, hash = (select hash from audit)`.execute(database.writer)
  await append('audit_3')
  await hour(3)
  expect(log.count('audit entries removed or changed: an earlier head is not in the chain')).toBe(1)
  expect(await metricValue(metrics.auditHeadsLost)).toBe(1)
  stop()
})

test('counting keys by state takes a small share of the time, however long it takes', async () => {
  const parts = await opened()
  const { timers } = parts
  const counts = { active: 0, expiring_30d: 0, expiring: 0, suspended: 0, expired: 0, revoked: 0 }
  const begunAtMs: number[] = []
  const search = {
    async countByState() {
      begunAtMs.push(timers.nowMs)
      await new Promise<void>(resolve => void timers.after(4_000, resolve))
      return counts
    },
  }
  const stop = startCountingKeys({ ...parts, search })
  while (timers.nowMs < 600_000) {
    timers.advance(1_000)
    await settled()
  }
  expect(begunAtMs).toEqual([0, 204_000, 408_000])
  stop()
})

test('work that takes longer than its period is not begun again before it ends, and is tried again after a failure', async () => {
  const log = new LogSpy()
  const logger = {
    ...silentLogger,
    warn: (fields: object | string, text = '') => log.warn(Object(fields), text),
  }
  const timers = new ManualTimers()
  let runs = 0
  const ends: PromiseWithResolvers<void>[] = []
  const work = () => {
    runs++
    const end = Promise.withResolvers<void>()
    ends.push(end)
    return end.promise
  }
  const stop = keepUp({ timers, logger }, { everyMs: 1_000, work, isDueNow: true })
  timers.advance(5_000)
  expect(runs).toBe(1)
  ends[0]?.reject(new Error('no database'))
  await settled()
  expect(log.count('housekeeping failed, retrying')).toBe(1)
  timers.advance(1_000)
  expect(runs).toBe(2)
  stop()
  expect(timers.nextDelayMs).toBeNull()
})

test('a console keeps up its audit log from its start, and leaves no timer when it has stopped', async () => {
  const timers = new ManualTimers()
  const { log, stop } = await startConsole({
    workspaceWebhooks: { enabled: true },
    leaks: { enabled: true },
    parts: { timers },
  })
  await until('the head is noted', () => log.some(({ msg }) => msg === 'audit head'))
  await stop()
  expect(timers.nextDelayMs).toBeNull()
})
