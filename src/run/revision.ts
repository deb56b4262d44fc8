import { readFileSync } from 'node:fs'

const FILE = new URL('../REVISION', import.meta.url)

/** The commit that the image was built from; `unknown` in a checkout. */
export function readRevision(): string {
  try {
    return readFileSync(FILE, 'utf8').trim() || 'unknown'
  } catch {
    return 'unknown'
  }
}
