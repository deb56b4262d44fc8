import { readFileSync } from 'node:fs'

const FILE = new URL('../REVISION', import.meta.url)

/** The commit that was built, which an image's build writes beside the program; a checkout does not know. */
export function readRevision(): string {
  try {
    return readFileSync(FILE, 'utf8').trim() || 'unknown'
  } catch {
    return 'unknown'
  }
}
