import { join } from 'node:path'
import { expect, test } from 'vitest'
import { toKeyRow } from '../../../src/console/platform/database/key-row.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openDatabase } from '../../support/open-database.ts'
import { ScriptedAnnouncer } from '../../support/scripted-announcer.ts'
import { startSignIn } from '../../support/signed-in.ts'
import { NOW_MS, someKey } from '../../support/stored-keys.ts'
import { databaseDirectory } from '../../support/temporary-directory.ts'

const PATH = '/workspaces/ws_1/revoke-all'

test('the page leads through revoking more keys than one request can, and counts them all', async () => {
  const databaseUrl = `sqlite:${join(databaseDirectory(), 'a.db')}`
  const { writer, close } = await openDatabase(databaseUrl)
  const rows = Array.from({ length: 150 }, () => toKeyRow(someKey(), NOW_MS))
  await writer.insertInto('keys').values(rows).execute()
  await close()
  const clock = new ManualClock()
  const announcer = new ScriptedAnnouncer()
  const { signedIn } = await startSignIn({ databaseUrl, parts: { clock, announcer } })
  const putAll = announcer.putAll.bind(announcer)
  announcer.putAll = async announcements => {
    clock.advance(6000)
    return putAll(announcements)
  }
  const { browser, csrf } = await signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1'] })
  const first = await browser.post(PATH, { _csrf: csrf, workspace: 'ws_1' })
  expect(first.text).toContain('100 keys revoked so far')
  expect(first.text).toContain('<strong>50 keys</strong>')
  expect(first.text).toContain('data-continues')
  const fields = Object.fromEntries(
    Array.from(
      first.text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g),
      ([, name, value]) => [String(name), String(value)],
    ),
  )
  const last = await browser.post(PATH, { ...fields, _csrf: csrf })
  expect(last.text).toContain('150 keys revoked')
  expect(last.text).not.toContain('data-continues')
})
