import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { COPIED_TABLES } from '../../src/console/backup/write-database.ts'
import { fillDatabase } from '../support/filled-database.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

test('a copy says how many rows it has, and one damaged page that no command reads stops copy and restore', async () => {
  const folder = databaseDirectory()
  const at = (name: string) => join(folder, name)
  const [good, damaged, copied, restored] = [
    at('good.db'),
    at('damaged.db'),
    at('copied.db'),
    at('restored.db'),
  ]
  await fillDatabase(`sqlite:${good}`, 3)
  const run = (url: string, ...args: string[]) =>
    runPosternHere(['database', ...args], {
      ...(url === '' ? {} : { POSTERN_DATABASE_URL: url }),
      POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
    })
  const { rows, page, size } = inspect(good)
  copyFileSync(good, damaged)
  const bytes = readFileSync(damaged)
  writeFileSync(damaged, bytes.fill(0xff, (page - 1) * size + 100, page * size))

  expect(await run('', 'copy', good, copied)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(`Copied ${rows} rows;`),
  })
  const refused = { code: 65, stderr: expect.stringMatching(/damaged\.db\)? is damaged: /) }
  expect(await run('', 'copy', damaged, at('other.db'))).toMatchObject(refused)
  expect(await run(`sqlite:${restored}`, 'restore', damaged, '--without-redis')).toMatchObject(refused)
  expect([existsSync(at('other.db')), existsSync(restored)]).toEqual([false, false])
})

/** The number of all rows, and where refusals are. */
function inspect(file: string) {
  const database = new DatabaseSync(file)
  database.exec('pragma wal_checkpoint(truncate)')
  const value = (text: string) => Number(Object.values(database.prepare(text).get() ?? {})[0])
  const rows = COPIED_TABLES.reduce((sum, { table }) => sum + value(`select count(*) from "${table}"`), 0)
  const page = value("select rootpage from sqlite_master where name = 'refusals'")
  const size = value('pragma page_size')
  database.close()
  return { rows, page, size }
}
