import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { importsOf } from '../architecture/source-text.ts'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))

/** @returns the test files that import a file, directly or not */
export function testsThatImport(wanted: string, pattern: string): string[] {
  const imports = new Map<string, readonly string[]>()
  const reachable = (file: string, seen = new Set<string>()): ReadonlySet<string> => {
    if (seen.has(file)) return seen
    seen.add(file)
    const imported = imports.get(file) ?? importedBy(file)
    imports.set(file, imported)
    for (const next of imported) reachable(next, seen)
    return seen
  }
  return globSync(pattern, { cwd: CHECKOUT })
    .sort()
    .filter(file => reachable(file).has(wanted))
}

function importedBy(file: string): string[] {
  return (
    importsOf(readFileSync(join(CHECKOUT, file), 'utf8'))
      .filter(({ specifier, typeOnly }) => !typeOnly && /^\..*\.ts$/.test(specifier))
      .map(({ specifier }) => join(dirname(file), specifier))
      // A test's own texts may look like imports.
      .filter(imported => existsSync(join(CHECKOUT, imported)))
  )
}
