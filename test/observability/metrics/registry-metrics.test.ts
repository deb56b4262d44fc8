import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { startConsole } from '../../support/console.ts'
import { ManualTimers } from '../../support/manual-timers.ts'
import { metricValue } from '../../support/metric-value.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { until } from '../../support/until.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'

test('a change whose audit entry cannot be written is rejected, counted, and not applied', async () => {
  const file = `${temporaryDirectory()}/postern.db`
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
  const timers = new ManualTimers()
  const { send, metrics } = await startConsole({ parts: { timers } })
  const keys = (state: string) => metricValue(metrics.keys, { state })
  await send('POST', KEYS, { name: 'short', scopes: ['files:read'], expiresInDays: 1 })
  const { body } = await send('POST', KEYS, { name: 'long', scopes: ['files:read'] })
  await send('POST', `/admin/v1/keys/${body.key.id}/revoke`)
  await send('POST', KEYS, { name: 'other', scopes: ['files:read'] })
  expect(await keys('active')).toBe(0)
  timers.advance(15_000)
  await until('they are counted', async () => (await keys('active')) === 1)
  expect([await keys('expiring'), await keys('revoked'), await keys('expired')]).toEqual([1, 1, 0])
})
