import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { PrepareReload } from '../../src/config/reloadable.ts'
import type { Config } from '../../src/config/schema/schema.ts'
import { consoleConfig, startConsole } from '../support/console.ts'
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
