import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { publish, publishNew, withUnfinished } from '../../src/console/backup/write-database.ts'
import { isLockedSqliteFile, lockSqliteFile } from '../../src/console/platform/database/sqlite/database.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const write = (...paths: readonly string[]) => {
  for (const path of paths) writeFileSync(path, 'whole')
}

test('a file is written beside its name, locked meanwhile, and leaves nothing there, also if writing fails', async () => {
  const folder = temporaryDirectory()
  const file = join(folder, 'backup.db')
  const names: string[] = []
  const writing = async (unfinished: string) => {
    expect(unfinished).toMatch(/\/backup\.db\.unfinished-[0-9a-f]{8}$/)
    expect(isLockedSqliteFile(unfinished)).toBe(true)
    for (const suffix of ['', '-journal', '-wal', '-shm']) write(unfinished + suffix)
    names.push(unfinished)
  }
  await withUnfinished(file, writing)
  const failing = withUnfinished(file, async unfinished => {
    await writing(unfinished)
    throw new Error('disk full')
  })
  await expect(failing).rejects.toThrow('disk full')
  expect(new Set(names).size).toBe(2)
  expect(readdirSync(folder)).toEqual([])
  // No lock is held any more.
  for (const name of names) expect(isLockedSqliteFile(name)).toBe(false)
})

test('what a killed process left is removed by the next one; what another writes stays, as do other files', async () => {
  const folder = temporaryDirectory()
  const at = (name: string) => join(folder, name)
  const killed = 'old.db.unfinished-0123abcd'
  const running = 'old.db.unfinished-89abcdef'
  const others = [
    'old.db',
    'old.db-lock',
    'x.unfinished-0123abcd',
    '.unfinished-0123abcd-lock',
    'a.unfinished-0-lock',
  ]
  write(at(killed), at(`${killed}-wal`), at(running), ...others.map(at))
  // The lock of a killed process is free.
  lockSqliteFile(`sqlite:${at(killed)}`)()
  onTestFinished(lockSqliteFile(`sqlite:${at(running)}`))
  await withUnfinished(at('new.db'), async () => {
    expect(readdirSync(folder).filter(name => name.startsWith(killed))).toEqual([])
    expect(existsSync(at(`${running}-lock`))).toBe(true)
  })
  const own = ['', '-lock', '-lock-journal'].map(suffix => running + suffix)
  expect(readdirSync(folder).toSorted()).toEqual([...others, ...own].toSorted())
})

test('a finished file replaces what has its name, or under a new name nothing', async () => {
  const folder = temporaryDirectory()
  const [unfinished, file] = [join(folder, 'unfinished'), join(folder, 'file')]
  write(unfinished)
  writeFileSync(file, 'old')
  expect(await publishNew(unfinished, file)).toBe(false)
  expect(readFileSync(file, 'utf8')).toBe('old')
  await publish(unfinished, file)
  expect([readdirSync(folder), readFileSync(file, 'utf8')]).toEqual([['file'], 'whole'])
  expect(await publishNew(file, unfinished)).toBe(true)
  expect(readFileSync(unfinished, 'utf8')).toBe('whole')
})
