import type { KyselyPlugin } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import type { RunWork } from '../../../src/console/platform/database/database.ts'
import { adminTokensIn } from '../../support/admin-tokens.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openDatabase } from '../../support/open-database.ts'
import { until } from '../../support/until.ts'

const MINUTE_MS = 60_000

test('a burst of requests writes the last use of an admin token once, and waits for that write in one of them', async () => {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  let writes = 0
  let written = Promise.resolve()
  const gate: KyselyPlugin = {
    transformQuery: ({ node }) => {
      if (node.kind === 'UpdateQueryNode') writes++
      return node
    },
    transformResult: ({ result }) => written.then(() => result),
  }
  const clock = new ManualClock()
  const tokens = adminTokensIn({ ...database, writer: database.writer.withPlugin(gate) }, clock)
  const request = { name: 'ci', permissions: ['keys:read'], expiresInDays: 1 }
  const caller = { actor: 'admin-token', address: '192.0.2.1', requestId: 'request-1' }
  const issued = await tokens.issue({ kind: 'operator' }, request, { caller, idempotency: null })
  const secret = (issued.kind === 'done' ? issued.secret?.reveal() : undefined) ?? ''
  writes = 0

  /** @returns after all but one of the requests have passed */
  async function burst(): Promise<void> {
    const { promise, resolve: release } = Promise.withResolvers<void>()
    written = promise
    let passed = 0
    const requests = Array.from({ length: 5 }, async () => {
      expect(await tokens.identify(secret)).toMatchObject({ name: 'ci' })
      passed++
    })
    await until('the others have passed', () => passed >= 4)
    release()
    await Promise.all(requests)
  }

  await burst()
  expect(writes).toBe(1)
  clock.advance(MINUTE_MS - 1)
  await burst()
  expect(writes).toBe(1)
  clock.advance(1)
  await burst()
  expect(writes).toBe(2)
  // A write that fails refuses no request.
  clock.advance(MINUTE_MS)
  written = Promise.reject(new Error('disk full'))
  // Nothing handles it before the token is found, which may take a turn of the event loop.
  written.catch(() => {})
  expect(await tokens.identify(secret)).toMatchObject({ name: 'ci' })
  expect(writes).toBe(3)
})

test('a revocation that is committed is not said to have failed, if the database is lost at that moment', async () => {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  let isLost = false
  const losing: KyselyPlugin = {
    transformQuery: ({ node }) => {
      if (isLost) throw new Error('connection lost')
      return node
    },
    transformResult: async ({ result }) => result,
  }
  const run: RunWork = async work => {
    const result = await database.changes.run(work)
    isLost = true
    return result
  }
  const writer = database.writer.withPlugin(losing)
  const tokens = adminTokensIn(
    { ...database, writer, changes: { ...database.changes, run } },
    new ManualClock(),
  )
  const request = { name: 'ci', permissions: ['keys:read'], expiresInDays: 1 }
  const context = {
    caller: { actor: 'admin-token', address: '192.0.2.1', requestId: 'r1' },
    idempotency: null,
  }
  const issued = await tokens.issue({ kind: 'operator' }, request, context)
  const id = issued.kind === 'done' ? issued.token.id : ''
  isLost = false
  const revoked = await tokens.revoke({ kind: 'operator' }, id, context)
  expect(revoked).toMatchObject({ kind: 'done', token: { id, revokedAtMs: expect.any(Number) } })
})
