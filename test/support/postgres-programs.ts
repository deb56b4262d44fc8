import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

const DEBIAN = '/usr/lib/postgresql'
/** PostgreSQL refuses to run as root; Debian's package creates this user. */
const UNPRIVILEGED = 'postgres'

/** Directory of the newest installed Debian package; null if there is none. */
export function postgresPrograms(): string | null {
  if (!existsSync(DEBIAN)) return null
  const directories = readdirSync(DEBIAN)
    .toSorted((a, b) => Number(b) - Number(a))
    .map(version => join(DEBIAN, version, 'bin'))
  return directories.find(directory => existsSync(join(directory, 'initdb'))) ?? null
}

/** @returns null if the tests do not run as root */
export function unprivilegedUser(): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null
  const idOf = (flag: string) => Number(execFileSync('id', [flag, UNPRIVILEGED], { encoding: 'utf8' }))
  return { uid: idOf('-u'), gid: idOf('-g') }
}
