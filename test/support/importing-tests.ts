import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { importsOf } from '../architecture/source-text.ts'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
/** It names all tools. */
const TOOLS_FILE = 'test/support/tools.ts'

/** @returns the test files that import a file, directly or not */
export function testsThatImport(wanted: string, pattern: string): string[] {
  const imports = new Map<string, readonly string[]>()
  return globSync(pattern, { cwd: CHECKOUT })
    .sort()
    .filter(file => reachable(file, imports).has(wanted))
}

/** @returns those of the names that a test file contains, or another file of tests that it imports, directly or not */
export function namesIn(file: string, names: readonly string[]): string[] {
  const files = [...reachable(file, new Map())].filter(one => one.startsWith('test/') && one !== TOOLS_FILE)
  const words = new Set(files.flatMap(one => textOf(one).match(/\w+/g) ?? []))
  return names.filter(name => words.has(name))
}

/** A file and all that it imports, directly or not. */
function reachable(
  file: string,
  imports: Map<string, readonly string[]>,
  seen = new Set<string>(),
): ReadonlySet<string> {
  if (seen.has(file)) return seen
  seen.add(file)
  const imported = imports.get(file) ?? importedBy(file)
  imports.set(file, imported)
  for (const next of imported) reachable(next, imports, seen)
  return seen
}

function importedBy(file: string): string[] {
  return (
    importsOf(textOf(file))
      .filter(({ specifier, typeOnly }) => !typeOnly && /^\..*\.ts$/.test(specifier))
      .map(({ specifier }) => join(dirname(file), specifier))
      // A test's own texts may look like imports.
      .filter(imported => existsSync(join(CHECKOUT, imported)))
  )
}

function textOf(file: string): string {
  return readFileSync(join(CHECKOUT, file), 'utf8')
}
