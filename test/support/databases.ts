import { existsSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const IN_MEMORY = '/dev/shm'
const ENOUGH_BYTES = 2 ** 30

/**
 * Where tests keep databases: in memory if there is room. On a busy disk one commit can take a second, and tests wait for thousands of
 * commits, or measure the time after one.
 */
export const DATABASES = hasRoom(IN_MEMORY) ? IN_MEMORY : tmpdir()

function hasRoom(directory: string): boolean {
  if (!existsSync(directory)) return false
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize > ENOUGH_BYTES
}
