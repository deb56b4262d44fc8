import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Creates a directory that is removed when the running test ends. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'postern-test-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}
