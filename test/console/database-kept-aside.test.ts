import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { restoreDatabase } from '../../src/console/backup/restore.ts'
import { openDatabase } from '../support/open-database.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

const NOW_MS = Date.parse('2026-03-04T05:06:07.890Z')

async function makeBackup(directory: string) {
  const backup = join(directory, 'backup.db')
  await (await openDatabase(`sqlite:${backup}`)).close()
  return (file: string) =>
    restoreDatabase({
      url: `sqlite:${file}`,
      file: backup,
      replace: true,
      seen: null,
      allowsMissing: false,
      keepsTokens: false,
      allowsBrokenAudit: false,
      fingerprints: [],
      auditKeys: new Map(),
      nowMs: NOW_MS,
      newAuditId: () => 'audit_1',
      progress: { show: () => {} },
    })
}

test('two restores in one second keep both databases that they replace', async () => {
  const directory = databaseDirectory()
  const file = join(directory, 'postern.db')
  const restore = await makeBackup(directory)
  const kept: string[] = []
  for (const content of ['first', 'second', 'third']) {
    writeFileSync(file, content)
    const { aside } = await restore(file)
    kept.push(String(aside))
  }
  const name = `${file}.before-20260304T050607Z`
  expect(kept).toEqual([name, `${name}-2`, `${name}-3`])
  expect(kept.map(path => readFileSync(path, 'utf8'))).toEqual(['first', 'second', 'third'])
})

test.each([
  ['others may read', 0o644],
  ['only may be read', 0o440],
])(
  'a restored database can be read and written by its owner alone, from a backup that %s',
  async (_, mode) => {
    const directory = databaseDirectory()
    const file = join(directory, 'postern.db')
    const restore = await makeBackup(directory)
    chmodSync(join(directory, 'backup.db'), mode)
    await restore(file)
    expect((statSync(file).mode & 0o777).toString(8)).toBe('600')
  },
)
