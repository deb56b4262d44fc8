// Removes from node_modules what no program loads: source maps, types, sources, documents, tests. Licences stay.
// Usage: node prune-packages.ts NODE_MODULES
import { readdirSync, rmdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const LOADED = /\.(?:js|mjs|cjs|json|node|wasm)$/
const LICENCE = /^(?:licen[cs]e|copying|notice|copyright)/i
/** Directories beside a package's own package.json. Deeper ones of these names may be code. */
const BESIDE_CODE = new Set([
  'bench',
  'benchmark',
  'benchmarks',
  'doc',
  'docs',
  'example',
  'examples',
  'test',
  'tests',
  '__tests__',
])
const TEST_FILE = /\.(?:test|spec)\.[cm]?js$/

const [root] = process.argv.slice(2)
if (root === undefined) throw new Error('Usage: node prune-packages.ts NODE_MODULES')
pruneModules(root)

/** A directory that holds packages and scopes of packages; what npm itself writes there starts with a dot. */
function pruneModules(directory: string): void {
  for (const name of readdirSync(directory)) {
    const path = join(directory, name)
    if (name.startsWith('.')) removeAll(path)
    else if (name.startsWith('@')) pruneModules(path)
    else prunePackage(path, true)
  }
}

function prunePackage(directory: string, isRoot: boolean): void {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (!entry.isDirectory()) {
      if (!isKept(entry.name)) rmSync(path)
    } else if (entry.name === 'node_modules') pruneModules(path)
    else if (entry.name.startsWith('.') || (isRoot && BESIDE_CODE.has(entry.name))) removeAll(path)
    else prunePackage(path, false)
  }
  if (!isRoot && readdirSync(directory).length === 0) rmdirSync(directory)
}

function isKept(name: string): boolean {
  if (name.startsWith('.') || TEST_FILE.test(name)) return false
  return LOADED.test(name) || (LICENCE.test(name) && !/\.ts$/.test(name))
}

function removeAll(path: string): void {
  rmSync(path, { recursive: true })
}
