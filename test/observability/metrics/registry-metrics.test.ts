import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { startConsole } from '../../support/console.ts'
import { ManualTimers } from '../../support/manual-timers.ts'
import { metricValue } from '../../support/metric-value.ts'
import { databaseDirectory } from '../../support/temporary-directory.ts'
import { settled, until } from '../../support/until.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'

test('a change whose audit entry cannot be written is rejected, counted, and not applied', async () => {
  const file = `${databaseDirectory()}/postern.db`
  const { send, metrics } = await startConsole({ databaseUrl: `sqlite:${file}` })
  const database = new DatabaseSync(file)
  database.exec(`create trigger full before insert on audit begin select raise(abort, 'disk is full'); end`)
  database.close()
  const rejected = await send('POST', KEYS, { name: 'a', scopes: ['files:read'] })
  expect(rejected).toMatchObject({ status: 503, body: { code: 'database_unavailable' } })
  expect(await metricValue(metrics.auditWriteFailures)).toBe(1)
  expect(await metricValue(metrics.keyOperations, { operation: 'issue', outcome: 'failed' })).toBe(1)
  expect((await send('GET', KEYS)).body).toEqual({ keys: [], hasMore: false })
})

test('keys are counted by state at the start and every 15 seconds, not at scrapes', async () => {
  const databaseUrl = `sqlite:${databaseDirectory()}/postern.db`
  const before = await startConsole({ databaseUrl })
  await before.send('POST', KEYS, { name: 'short', scopes: ['files:read'], expiresInDays: 1 })
  const { body } = await before.send('POST', KEYS, { name: 'long', scopes: ['files:read'] })
  await before.send('POST', KEYS, { name: 'other', scopes: ['files:read'] })
  await before.console.stop()

  // The rest after a count depends on how long it took: by the clock of the timers it takes no time.
  const timers = new ManualTimers()
  const clock = { wallMs: () => Date.now() + timers.nowMs, monotonicMs: () => timers.nowMs }
  const { send, metrics } = await startConsole({ databaseUrl, parts: { timers, clock } })
  const keys = (state: string) => metricValue(metrics.keys, { state })
  await until('they are counted', async () => (await keys('active')) === 2)
  expect([await keys('expiring'), await keys('revoked'), await keys('expired')]).toEqual([1, 0, 0])
  await send('POST', `/admin/v1/keys/${body.key.id}/revoke`)
  timers.advance(14_999)
  await settled()
  expect([await keys('active'), await keys('revoked')]).toEqual([2, 0])
  timers.advance(1)
  await until('they are counted again', async () => (await keys('revoked')) === 1)
  expect(await keys('active')).toBe(1)
})
