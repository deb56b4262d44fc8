import { constants } from 'node:fs'
import { copyFile, link, open, rename, rm } from 'node:fs/promises'
import { errorCode } from '../../domain/errors.ts'

/** Of file systems without hard links, such as FAT and many network shares. */
const WITHOUT_LINKS: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'])
const OWNER_ONLY = 0o600

/** What a command says that was not allowed to replace it. */
export function existsAlready(file: string): string {
  return `The file ${file} exists already: name another one, or add --force`
}

type Link = (from: string, to: string) => Promise<void>

/**
 * Gives a file a name that no other file has, in the same folder. Unlike a rename, it replaces nothing. Its own name may stay.
 * @returns false if a file has the new name
 */
export function giveNewName(from: string, to: string, linkFile: Link = link): Promise<boolean> {
  return withNewName(from, to, { linkFile, withoutLinks: reserveAndRename })
}

/**
 * Gives a file a second name, or a copy under that name where a file has only one.
 * @returns false if a file has the new name
 */
export function keepUnderNewName(from: string, to: string, linkFile: Link = link): Promise<boolean> {
  return withNewName(from, to, { linkFile, withoutLinks: copyWhole })
}

async function withNewName(
  from: string,
  to: string,
  { linkFile, withoutLinks }: { readonly linkFile: Link; readonly withoutLinks: Link },
): Promise<boolean> {
  try {
    await linkFile(from, to).catch((error: unknown) => {
      if (!WITHOUT_LINKS.has(errorCode(error) ?? '')) throw error
      return withoutLinks(from, to)
    })
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  }
}

/** The rename replaces the empty file that was made just before, and that no one else takes for a free name. */
async function reserveAndRename(from: string, to: string): Promise<void> {
  await (await open(to, 'wx', OWNER_ONLY)).close()
  try {
    await rename(from, to)
  } catch (error) {
    await rm(to, { force: true })
    throw error
  }
}

async function copyWhole(from: string, to: string): Promise<void> {
  try {
    await copyFile(from, to, constants.COPYFILE_EXCL)
    const copy = await open(to)
    await copy.sync().finally(() => copy.close())
  } catch (error) {
    // Without the space for all of it.
    if (errorCode(error) !== 'EEXIST') await rm(to, { force: true })
    throw error
  }
}
