import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { giveNewName, keepUnderNewName } from '../../src/console/backup/new-name.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

/** As on FAT, where a file has one name. */
const withoutLinks = async () => {
  throw Object.assign(new Error('EPERM: operation not permitted, link'), { code: 'EPERM' })
}

function wholeFile() {
  const folder = temporaryDirectory()
  const [from, to] = [join(folder, 'unfinished'), join(folder, 'file')]
  writeFileSync(from, 'whole', { mode: 0o600 })
  return { folder, from, to }
}

test.each([
  ['with hard links', undefined],
  ['without hard links', withoutLinks],
])('on a file system %s a finished file gets its name, and an existing file is kept', async (_, linkFile) => {
  const { from, to } = wholeFile()
  expect(await giveNewName(from, to, linkFile)).toBe(true)
  expect(readFileSync(to, 'utf8')).toBe('whole')
  expect(statSync(to).mode & 0o777).toBe(0o600)
  const newer = `${from}-newer`
  writeFileSync(newer, 'newer')
  expect(await giveNewName(newer, to, linkFile)).toBe(false)
  expect([readFileSync(newer, 'utf8'), readFileSync(to, 'utf8')]).toEqual(['newer', 'whole'])
})

test.each([
  ['with hard links', undefined],
  ['without hard links', withoutLinks],
])('on a file system %s a database is kept aside beside its own name', async (_, linkFile) => {
  const { folder, from, to } = wholeFile()
  expect(await keepUnderNewName(from, to, linkFile)).toBe(true)
  expect([readFileSync(from, 'utf8'), readFileSync(to, 'utf8')]).toEqual(['whole', 'whole'])
  expect(await keepUnderNewName(from, to, linkFile)).toBe(false)
  expect(readdirSync(folder).toSorted()).toEqual(['file', 'unfinished'])
})

test('a file that cannot get its name leaves nothing under it', async () => {
  const { from, to } = wholeFile()
  const missing = `${from}-missing`
  await expect(giveNewName(missing, to, withoutLinks)).rejects.toThrow('ENOENT')
  await expect(keepUnderNewName(missing, to, withoutLinks)).rejects.toThrow('ENOENT')
  expect(existsSync(to)).toBe(false)
})
