import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import type { PrepareReload } from '../../src/config/reloadable.ts'
import type { Config } from '../../src/config/schema/schema.ts'
import { consoleConfig, startConsole } from '../support/console.ts'
import { openDatabase } from '../support/open-database.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { describeWorkspacePlan } from './workspace-plan.contract.ts'

describeWorkspacePlan('an SQLite file', async () => `sqlite:${join(databaseDirectory(), 'a.db')}`)

test('a reload adds and removes plans: a key keeps one that is gone, and gets it no more', async () => {
  const prepares: PrepareReload<Config>[] = []
  const config = consoleConfig({ plans: ['free'] })
  const { send } = await startConsole({
    plans: ['free'],
    parts: { onReload: prepare => void prepares.push(prepare) },
  })
  const wanted = { name: 'build server', scopes: ['files:read'] }
  const issue = (plan: string) => send('POST', '/admin/v1/workspaces/ws_1/keys', { ...wanted, plan })
  const { id } = (await issue('free')).body.key
  const next = { ...config, limits: { ...config.limits, plans: { gold: { policies: [] } } } }
  for (const apply of prepares.map(prepare => prepare(next))) apply()
  expect([(await issue('gold')).status, (await issue('free')).status]).toEqual([201, 400])
  const edited = await send(
    'PATCH',
    `/admin/v1/keys/${id}`,
    { name: 'renamed', plan: 'free' },
    {
      headers: { 'if-match': '"1"' },
    },
  )
  expect([edited.status, edited.body.key]).toMatchObject([200, { name: 'renamed', plan: 'free' }])
})

test('a plan whose audit entry cannot be written is given to no key, and the answer says that nothing was changed', async () => {
  const databaseUrl = `sqlite:${join(databaseDirectory(), 'a.db')}`
  const { send } = await startConsole({ databaseUrl, plans: ['free'] })
  const [keys, plan] = ['/admin/v1/workspaces/ws_1/keys', '/admin/v1/workspaces/ws_1/plan']
  const { id } = (await send('POST', keys, { name: 'build server', scopes: ['files:read'] })).body.key
  const opened = await openDatabase(databaseUrl)
  onTestFinished(() => opened.close())
  const refuse = "create trigger f before insert on audit begin select raise(abort, 'disk is full'); end"
  await sql.raw(refuse).execute(opened.writer)
  const refused = await send('PUT', plan, { plan: 'free' })
  expect([refused.status, refused.body.code]).toEqual([503, 'database_unavailable'])
  expect((await send('GET', plan)).body).toEqual({ plan: null })
  expect((await send('GET', `/admin/v1/keys/${id}`)).body.key.plan).toBe(null)
})
