import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

const DEBIAN = '/usr/lib/postgresql'

/** Directory of the newest installed Debian package; null if there is none. */
export function postgresPrograms(): string | null {
  if (!existsSync(DEBIAN)) return null
  const directories = readdirSync(DEBIAN)
    .toSorted((a, b) => Number(b) - Number(a))
    .map(version => join(DEBIAN, version, 'bin'))
  return directories.find(directory => existsSync(join(directory, 'initdb'))) ?? null
}
