import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { DATABASES } from './databases.ts'

/** Creates a directory that is removed when the running test ends. */
export function temporaryDirectory(parent = tmpdir()): string {
  const directory = mkdtempSync(join(parent, 'postern-test-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** The same, for databases. */
export function databaseDirectory(): string {
  return temporaryDirectory(DATABASES)
}
