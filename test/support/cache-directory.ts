import { homedir } from 'node:os'
import { join } from 'node:path'

/** Where the tests keep what they fetch or build once for this user. It may not exist yet. */
export function cacheDirectory(name: string): string {
  return join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), name)
}
