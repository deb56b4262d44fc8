import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { createIds } from '../../src/console/platform/database/ids.ts'
import { fillDatabase } from '../support/filled-database.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const forgedId = createIds('audit', randomBytes)(1)
/** Beyond what JavaScript and its dates can hold. */
const FORGED_AT_MS = 2n ** 60n

test('a forged audit entry stops no backup: the backup is made and says so, and a restore needs an option', async () => {
  const directory = temporaryDirectory()
  const [file, backup, restored] = ['postern.db', 'backup.db', 'restored.db'].map(name =>
    join(directory, name),
  )
  await fillDatabase(`sqlite:${file}`, 3)
  const attacker = new DatabaseSync(file ?? '')
  attacker.exec(`insert into audit (id, workspace_id, at_ms, actor, action, key_id, detail)
    values ('${forgedId}', 'ws_1', ${FORGED_AT_MS}, 'person:framed', 'key.revoked', '', '{}')`)
  attacker.close()
  const run = (database: string | undefined, ...args: (string | undefined)[]) =>
    runPosternHere(
      args.map(arg => arg ?? ''),
      {
        POSTERN_DATABASE_URL: `sqlite:${database}`,
        POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
      },
    )

  const saved = await run(file, 'database', 'backup', backup)
  expect(saved).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Saved 3 keys and 3 audit entries'),
  })
  expect(saved.stderr).toContain(`inserted: entry ${forgedId}`)
  expect(saved.stderr).toContain('`postern audit verify`')

  const restore = ['database', 'restore', backup, '--without-redis']
  const refused = await run(restored, ...restore)
  const advice =
    'Nothing was changed. Use an earlier backup, or add --allow-broken-audit, which restores these entries as they are'
  expect(refused).toMatchObject({ code: 65, stderr: expect.stringContaining(advice) })
  expect(existsSync(restored ?? '')).toBe(false)

  const allowed = await run(restored, ...restore, '--allow-broken-audit')
  expect(allowed).toMatchObject({ code: 0, stdout: expect.stringContaining('Restored 3 keys') })
  expect(allowed.stderr).toContain(`inserted: entry ${forgedId}`)
  expect(await run(restored, 'audit', 'verify')).toMatchObject({
    code: 1,
    stdout: expect.stringContaining(`inserted: entry ${forgedId}`),
  })
})

test('a backup of one audit entry says so in the singular', async () => {
  const directory = temporaryDirectory()
  const url = `sqlite:${join(directory, 'postern.db')}`
  await fillDatabase(url, 1)
  const { stdout } = await runPosternHere(['database', 'backup', join(directory, 'backup.db')], {
    POSTERN_DATABASE_URL: url,
    POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
  })
  expect(stdout).toMatch(/^Saved 1 key and 1 audit entry to /)
})
