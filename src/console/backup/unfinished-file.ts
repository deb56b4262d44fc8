import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { link, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isLockedSqliteFile, lockSqliteFile } from '../platform/database/sqlite/database.ts'
import { codeOrMessage } from '../platform/database/sqlite/file.ts'

/** An unfinished file whose lock is there: the lock of a process that was killed is free. */
const UNFINISHED = /^.+\.unfinished-[0-9a-f]{8}(?=-lock$)/
/** Of file systems without links, such as SMB shares: there the name is taken only almost at once. */
const WITHOUT_LINKS: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'])
const SIDE_FILES = ['', '-journal', '-wal', '-shm', '-lock']

/**
 * Runs `write` with a name beside the file that no other process uses, and removes what is left under it: several may write
 * a file of one name at once. Removes what killed ones have left in the folder.
 */
export async function withUnfinished<Result>(
  file: string,
  write: (unfinished: string) => Promise<Result>,
): Promise<Result> {
  await removeAbandoned(dirname(file))
  const unfinished = `${file}.unfinished-${randomBytes(4).toString('hex')}`
  const release = lockSqliteFile(`sqlite:${unfinished}`)
  try {
    return await write(unfinished)
  } finally {
    await removeDatabase(unfinished)
    release()
  }
}

async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const [unfinished] = UNFINISHED.exec(name) ?? []
    if (unfinished === undefined || isLockedSqliteFile(join(folder, unfinished))) continue
    await removeDatabase(join(folder, unfinished))
  }
}

async function removeDatabase(file: string): Promise<void> {
  for (const suffix of SIDE_FILES) await rm(`${file}${suffix}`, { force: true })
}

/** Gives a whole file its final name, in the same directory. It is on the disk before, and replaces what has the name. */
export async function publish(unfinished: string, file: string): Promise<void> {
  await sync(unfinished)
  await rename(unfinished, file)
  await sync(dirname(file))
}

/** The same under a name that no file has. @returns false if one has it by now */
export async function publishNew(unfinished: string, file: string): Promise<boolean> {
  await sync(unfinished)
  try {
    // Unlike a rename, a link replaces nothing.
    await link(unfinished, file)
  } catch (error) {
    if (codeOrMessage(error) === 'EEXIST') return false
    if (!WITHOUT_LINKS.has(codeOrMessage(error))) throw error
    if (existsSync(file)) return false
    await rename(unfinished, file)
  }
  await sync(dirname(file))
  return true
}

export async function sync(path: string): Promise<void> {
  const handle = await open(path)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
