import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** Tells two contents apart and gives neither away. */
export function fingerprintOf(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'hex')
}

/** For a file that cannot be read: it is another one as soon as it can. */
export function fingerprintOfFault(error: unknown): string {
  return `unreadable: ${error instanceof Error && 'code' in error ? String(error.code) : 'unknown'}`
}

export function fingerprintOfFile(file: string): string {
  try {
    return fingerprintOf(readFileSync(file))
  } catch (error) {
    return fingerprintOfFault(error)
  }
}
