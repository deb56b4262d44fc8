import { createHash } from 'node:crypto'
import { lstatSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { BuiltImage } from './built-image.ts'

/** Enough to see a cause; a wrong base changes thousands of files. */
const MOST = 40

/** What two images differ in: each file with what of it differs, and each field of the description. Empty if they have one id. */
export function imageDifferences(one: BuiltImage, other: BuiltImage): string[] {
  if (one.id === other.id) return []
  const [first, second] = [filesOf(one), filesOf(other)]
  const paths = [...new Set([...first.keys(), ...second.keys()])].sort()
  const files = paths.flatMap(path => {
    const [before, after] = [first.get(path), second.get(path)]
    if (before === undefined || after === undefined)
      return `${path}: only in the ${before === undefined ? 'second' : 'first'}`
    return changed(path, before, after)
  })
  const found = [...changed('description', one.description(), other.description()), ...files]
  const shown = found.slice(0, MOST)
  if (found.length > MOST) shown.push(`and ${found.length - MOST} more`)
  // Such as the order of files in a layer.
  return files.length > 0 ? shown : [...shown, 'the files are the same, the layers are not']
}

type Fields = Readonly<Record<string, unknown>>

function changed(what: string, before: Fields, after: Fields): string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return names
    .filter(name => !isDeepStrictEqual(before[name], after[name]))
    .map(name => `${what}: ${name} ${JSON.stringify(before[name])} and ${JSON.stringify(after[name])}`)
}

function filesOf(image: BuiltImage): ReadonlyMap<string, Fields> {
  return new Map(image.files().map(path => [path, factsOf(join(image.root, path))]))
}

function factsOf(path: string): Fields {
  const facts = lstatSync(path)
  const { mode, uid, gid, mtimeMs } = facts
  const shared = { mode: mode.toString(8), uid, gid, mtimeMs }
  if (facts.isSymbolicLink()) return { ...shared, target: readlinkSync(path) }
  if (!facts.isFile()) return shared
  const content = readFileSync(path)
  const sha256 = createHash('sha256').update(content).digest('hex')
  return { ...shared, links: facts.nlink, size: content.length, sha256 }
}
